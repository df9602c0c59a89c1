//! Power limits by calls of their own, on drivers that have no fields for them: these came with 535 (nvml.h of CUDA 12.2).

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::super::absent::Reading;
use super::super::fields::{POWER_LIMIT_DEFAULT, POWER_LIMIT_ENFORCED};
use super::{Reader, Scope};
use goodput_catalog::dcgm::{Field, Read};

/// mW by a call.
type Call = fn(&Device<'_>) -> Result<u32, NvmlError>;

const fn gpu(id: u32) -> Field {
    Field { id, scope: Scope::Gpu }
}

/// The fields, and the calls that give the same.
const LIMITS: [(Field, Call); 5] = [
    (gpu(187), |d| d.power_management_limit_constraints().map(|limits| limits.min_limit)),
    (gpu(188), |d| d.power_management_limit_constraints().map(|limits| limits.max_limit)),
    (POWER_LIMIT_DEFAULT, |d| d.power_management_limit_default()),
    (POWER_LIMIT_ENFORCED, |d| d.enforced_power_limit()),
    (gpu(192), |d| d.power_management_limit()),
];

impl Reader<'_> {
    /// Asks for the limits that the driver's fields do not give.
    pub(super) fn read_limits(&mut self) {
        let missing = |field: &Field| self.plan.has(Read::Field(*field)) && self.values.field(*field).is_err();
        let missing: Vec<_> = LIMITS.into_iter().filter(|(field, _)| missing(field)).collect();
        self.limits = missing.into_iter().map(|(field, call)| (field, self.number(call))).collect();
        self.show_limits();
    }

    /// Puts them where the fields would be, which every cycle reads again.
    pub(super) fn show_limits(&mut self) {
        for (field, limit) in &self.limits {
            let read = Read::Field(*field);
            let limit: Reading<f64> = limit.and_then(|milliwatts| self.values.admit(read, milliwatts));
            if self.values.field(*field).is_err() {
                self.values.set(read, limit);
            }
        }
    }
}
