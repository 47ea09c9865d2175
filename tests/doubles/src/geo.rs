//! Country databases in MaxMind's format, as small as can be (<https://maxmind.github.io/MaxMind-DB/>, version 2.0).

use std::net::IpAddr;

/// A database of IPv6 addresses, with those of IPv4 in `::/96` as usual: what it has for the first bits of addresses, a
/// country or with `None` something else.
pub fn database(countries: &[(&str, Option<&str>)]) -> Vec<u8> {
    damaged_database(countries, &[])
}

/// The same, with further networks whose records lead out of the file.
pub fn damaged_database(countries: &[(&str, Option<&str>)], lost: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut tree = vec![[None, None]];
    for network in lost {
        let (address, bits) = read(network);
        add(&mut tree, address, bits, 1 << 20);
    }
    for (network, country) in countries {
        let (address, bits) = read(network);
        add(&mut tree, address, bits, data.len());
        match country {
            Some(code) => data.extend([map(1), text("country"), map(1), text("iso_code"), text(code)].concat()),
            None => data.extend([map(1), text("autonomous_system_organization"), text("example")].concat()),
        }
    }
    file(&tree, &data)
}

/// A tree of which each node leads to the next one on both sides, and the last to nothing: short, with 2^128 ways.
pub fn endless_database() -> Vec<u8> {
    let mut tree: Vec<_> = (1..128).map(|next| [Some(Record::Node(next)); 2]).collect();
    tree.push([None, None]);
    file(&tree, &[])
}

/// The address of a network as one of IPv6, and how many of its bits name the network.
fn read(network: &str) -> (u128, usize) {
    let (address, bits) = network.split_once('/').expect("a network");
    let bits: usize = bits.parse().expect("a number of bits");
    match address.parse().expect("an address") {
        IpAddr::V4(address) => (u128::from(address.to_bits()), bits + 96),
        IpAddr::V6(address) => (address.to_bits(), bits),
    }
}

/// Leads the first `bits` of an address to what begins at `data`.
fn add(tree: &mut Vec<[Option<Record>; 2]>, address: u128, bits: usize, data: usize) {
    let mut node = 0;
    for nth in 0..bits {
        let side = usize::from(address >> (127 - nth) & 1 == 1);
        node = match tree[node][side] {
            _ if nth + 1 == bits => {
                tree[node][side] = Some(Record::Data(data));
                return;
            }
            Some(Record::Node(next)) => next,
            _ => {
                tree.push([None, None]);
                let next = tree.len() - 1;
                tree[node][side] = Some(Record::Node(next));
                next
            }
        };
    }
}

fn file(tree: &[[Option<Record>; 2]], data: &[u8]) -> Vec<u8> {
    let nodes = tree.len();
    let value = |record: Option<Record>| match record {
        None => nodes,
        Some(Record::Node(nth)) => nth,
        Some(Record::Data(at)) => nodes + 16 + at,
    };
    let tree = tree.iter().flatten().flat_map(|record| {
        let bytes = u32::try_from(value(*record)).expect("few").to_be_bytes();
        [bytes[1], bytes[2], bytes[3]]
    });
    let number = u32::try_from(nodes).expect("few").to_be_bytes();
    let metadata = [
        map(9),
        [text("node_count"), vec![0xc4], number.to_vec()].concat(),
        [text("record_size"), vec![0xa1, 24]].concat(),
        [text("ip_version"), vec![0xa1, 6]].concat(),
        [text("database_type"), text("Test-Country")].concat(),
        [text("languages"), vec![0x00, 0x04]].concat(),
        [text("binary_format_major_version"), vec![0xa1, 2]].concat(),
        [text("binary_format_minor_version"), vec![0xa0]].concat(),
        [text("build_epoch"), vec![0x01, 0x02, 1]].concat(),
        [text("description"), map(0)].concat(),
    ]
    .concat();
    tree.chain([0; 16]).chain(data.iter().copied()).chain(*b"\xab\xcd\xefMaxMind.com").chain(metadata).collect()
}

#[derive(Clone, Copy)]
enum Record {
    Node(usize),
    Data(usize),
}

fn map(entries: u8) -> Vec<u8> {
    vec![0xe0 | entries]
}

fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("short");
    let head = if length < 29 { vec![0x40 | length] } else { vec![0x5d, length - 29] };
    [head, text.as_bytes().to_vec()].concat()
}
