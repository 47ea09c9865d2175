//! Networks in the settings.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// Networks in CIDR notation (RFC 4632), separated by commas; a single address is a network of one address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(pub(super) Vec<IpNet>);

impl Networks {
    /// Whether one of the networks contains an address. IPv4-mapped IPv6 addresses do not match IPv4 networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// All addresses.
    pub fn everything() -> Self {
        Self([IpAddr::from([0_u8; 4]), IpAddr::from([0_u8; 16])].map(|any| IpNet::new_assert(any, 0)).to_vec())
    }

    /// Whether there are no networks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Networks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let networks = parts.map(|part| {
            let network = part.parse().or_else(|_| part.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| format!("{part:?} is not a network such as 10.0.0.0/8"))
        });
        networks.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, network) in self.0.iter().enumerate() {
            write!(f, "{}{network}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
