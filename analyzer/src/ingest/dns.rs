//! Names in DNS: their addresses, by the system's resolver, and their services (SRV), for which it has no call.

use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData};
use hickory_resolver::system_conf::read_system_conf;

use super::job::Record;

/// How the resolver ends when a name has no address: EAI_NONAME and EAI_NODATA of glibc, which have no kind of their own.
const NO_ADDRESS: [&str; 2] = ["Name or service not known", "No address associated with hostname"];

/// The targets of a name, `HOST:PORT` each, in order: servers change it from answer to answer. A name without records has
/// none: so does a headless Service without pods.
pub(super) async fn look_up(name: &str, record: Record) -> Result<Vec<String>, String> {
    let mut found = match record {
        Record::Address(family, port) => match tokio::net::lookup_host((name, port)).await {
            Ok(found) => found.filter(|found| family.has(found.ip())).map(|found| found.to_string()).collect(),
            Err(error) if NO_ADDRESS.iter().any(|text| error.to_string().ends_with(text)) => Vec::new(),
            Err(error) => return Err(error.to_string()),
        },
        Record::Service => services(name).await.map_err(|error| error.to_string())?,
    };
    found.sort();
    Ok(found)
}

/// As Prometheus does, priority and weight are left aside: each record is a target.
async fn services(name: &str) -> Result<Vec<String>, NetError> {
    // A resolver for each look-up: `resolv.conf` may have changed, and answers are not cached.
    let (config, options) = read_system_conf()?;
    let mut search = config.search().to_vec();
    if search.is_empty() {
        search.extend(config.domain().cloned());
    }
    let all = candidates(&Name::from_utf8(name)?, &search, options.ndots)?;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    let resolver = builder.build()?;
    let mut failure = None;
    // One by one: the resolver's own search forgets that a server failed once a later name does not exist.
    for candidate in all {
        match resolver.srv_lookup(candidate).await {
            Ok(found) => return Ok(found.answers().iter().filter_map(|record| target(&record.data)).collect()),
            Err(error) if error.is_no_records_found() => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or_else(|| Ok(Vec::new()), Err)
}

/// The names to ask for, in order (resolv.conf(5)): of a name with as many dots as `ndots` itself first, else last.
fn candidates(name: &Name, search: &[Name], ndots: usize) -> Result<Vec<Name>, NetError> {
    let mut whole = name.clone();
    whole.set_fqdn(true);
    if name.is_fqdn() {
        return Ok(vec![whole]);
    }
    let mut all = search.iter().map(|domain| name.clone().append_domain(domain)).collect::<Result<Vec<_>, _>>()?;
    let is_first = usize::from(name.num_labels()) > ndots;
    all.insert(if is_first { 0 } else { all.len() }, whole);
    Ok(all)
}

/// None of other records, and where the host is the root: the service is not there (RFC 2782).
fn target(data: &RData) -> Option<String> {
    let RData::SRV(service) = data else { return None };
    let host = service.target.to_ascii();
    (!service.target.is_root()).then(|| format!("{}:{}", host.trim_end_matches('.'), service.port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_searched_for_as_resolv_conf_says() {
        let name = |text: &str| Name::from_utf8(text).unwrap();
        let search = [name("svc.test."), name("test.")];
        let asked = |text: &str, ndots| {
            let all = candidates(&name(text), &search, ndots).unwrap();
            all.iter().map(Name::to_ascii).collect::<Vec<_>>()
        };
        assert_eq!(asked("a.gpu", 5), ["a.gpu.svc.test.", "a.gpu.test.", "a.gpu."]);
        assert_eq!(asked("a.gpu", 1), ["a.gpu.", "a.gpu.svc.test.", "a.gpu.test."]);
        assert_eq!(asked("a.gpu.", 5), ["a.gpu."]);
    }
}
