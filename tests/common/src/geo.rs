//! A country database in MaxMind's format, as small as can be
//! (<https://maxmind.github.io/MaxMind-DB/>, version 2.0).

/// A database of IPv4 addresses that has a country for the first eight bits of an address, and with `None` something else.
pub fn database(countries: &[(u8, Option<&str>)]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut tree = vec![[None, None]];
    let mut leaves = Vec::new();
    for (first, country) in countries {
        leaves.push((*first, data.len()));
        match country {
            Some(code) => data.extend([map(1), text("country"), map(1), text("iso_code"), text(code)].concat()),
            None => data.extend([map(1), text("autonomous_system_organization"), text("example")].concat()),
        }
    }
    for (first, leaf) in &leaves {
        let mut node = 0;
        for bit in (0..8).rev() {
            let side = usize::from(first >> bit & 1);
            if bit == 0 {
                tree[node][side] = Some(Record::Data(*leaf));
            } else if let Some(Record::Node(next)) = tree[node][side] {
                node = next;
            } else {
                tree.push([None, None]);
                let next = tree.len() - 1;
                tree[node][side] = Some(Record::Node(next));
                node = next;
            }
        }
    }
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
        [text("ip_version"), vec![0xa1, 4]].concat(),
        [text("database_type"), text("Test-Country")].concat(),
        [text("languages"), vec![0x00, 0x04]].concat(),
        [text("binary_format_major_version"), vec![0xa1, 2]].concat(),
        [text("binary_format_minor_version"), vec![0xa0]].concat(),
        [text("build_epoch"), vec![0x01, 0x02, 1]].concat(),
        [text("description"), map(0)].concat(),
    ]
    .concat();
    tree.chain([0; 16]).chain(data).chain(*b"\xab\xcd\xefMaxMind.com").chain(metadata).collect()
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
