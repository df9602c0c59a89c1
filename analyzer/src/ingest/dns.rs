//! Names in DNS: their addresses, by the system's resolver, and their services (SRV), which that resolver does not tell.

use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::RData;

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
    // A resolver for each look-up: `resolv.conf` may have changed, and it remembers nothing that has.
    let resolver = TokioResolver::builder_tokio()?.build()?;
    let found = match resolver.srv_lookup(name).await {
        Err(error) if error.is_no_records_found() => return Ok(Vec::new()),
        found => found?,
    };
    let target = |data: &RData| match data {
        RData::SRV(service) => {
            let host = service.target.to_utf8();
            Some(format!("{}:{}", host.trim_end_matches('.'), service.port))
        }
        _ => None,
    };
    Ok(found.answers().iter().filter_map(|record| target(&record.data)).collect())
}
