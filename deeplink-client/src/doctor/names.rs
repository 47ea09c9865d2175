//! Direct DNS queries, to the system's servers or a given one.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

/// How long a name server may take before it is asked again.
const ONE_TRY: Duration = Duration::from_secs(3);

/// Asks for records.
pub(super) struct Names(Option<TokioResolver>);

impl Names {
    /// Asks this server, or the system's if there is none.
    pub(super) fn new(server: Option<SocketAddr>) -> Self {
        let builder = match server {
            Some(server) => {
                let mut one = NameServerConfig::udp_and_tcp(server.ip());
                one.connections.iter_mut().for_each(|connection| connection.port = server.port());
                let config = ResolverConfig::from_name_servers(vec![one]);
                Ok(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()))
            }
            None => TokioResolver::builder_tokio(),
        };
        let build = |mut builder: hickory_resolver::ResolverBuilder<TokioRuntimeProvider>| {
            let options = builder.options_mut();
            (options.timeout, options.attempts) = (ONE_TRY, 2);
            options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
            builder.build().ok()
        };
        Self(builder.ok().and_then(build))
    }

    fn resolver(&self) -> Result<&TokioResolver, String> {
        self.0.as_ref().ok_or_else(|| "no name server is configured on this machine".to_owned())
    }

    /// The addresses of a host, at least one.
    pub(super) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let found = match self.resolver()?.lookup_ip(complete(host)).await {
            Ok(found) => found.iter().collect(),
            Err(error) if error.is_no_records_found() => Vec::new(),
            Err(error) => return Err(why(&error)),
        };
        if found.is_empty() { Err("DNS has no address for it".to_owned()) } else { Ok(found) }
    }

    /// The TXT values of a name, each with its strings joined; none when there is no such record.
    pub(super) async fn txt(&self, name: &str) -> Result<Vec<String>, String> {
        let found = match self.resolver()?.txt_lookup(complete(name)).await {
            Ok(found) => found,
            Err(error) if error.is_no_records_found() => return Ok(Vec::new()),
            Err(error) => return Err(why(&error)),
        };
        let value = |data: &RData| match data {
            RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
            _ => None,
        };
        Ok(found.answers().iter().filter_map(|record| value(&record.data)).collect())
    }
}

/// With the final dot, so that no search list is applied.
fn complete(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.'))
}

fn why(error: &NetError) -> String {
    match error {
        NetError::Timeout => "the name server does not respond".to_owned(),
        _ => "the name server did not return a usable response".to_owned(),
    }
}
