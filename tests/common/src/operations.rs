//! The operations of the OpenAPI document.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

use http::{Method, StatusCode};
use serde_json::Value;

use deeplink_doubles::machine;

/// One operation of the OpenAPI document.
#[derive(Debug)]
pub struct Operation {
    /// The operation id.
    pub id: String,
    /// The method.
    pub method: Method,
    /// The path with its parameters in braces.
    pub path: String,
    /// Whether it needs no credential.
    pub is_public: bool,
    /// Whether it asks who is signed in, by the session's cookie.
    pub takes_session: bool,
    /// Whether it takes a body of JSON.
    pub has_body: bool,
    /// Whether it takes a form.
    pub has_form: bool,
    /// Every status that it may answer with.
    pub statuses: BTreeSet<u16>,
}

static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(deeplink_server::openapi::text()).expect("the document is JSON");
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let statuses = operation["responses"].as_object().expect("responses").keys();
            let takes = |kind: &str| !operation["requestBody"]["content"][kind].is_null();
            operations.push(Operation {
                id: operation["operationId"].as_str().expect("an operation id").to_owned(),
                method: method.to_uppercase().parse().expect("a method"),
                path: path.clone(),
                is_public: operation["security"].as_array().is_none_or(Vec::is_empty),
                takes_session: !operation["security"][0]["session"].is_null(),
                has_body: takes("application/json"),
                has_form: takes("application/x-www-form-urlencoded"),
                statuses: statuses.map(|status| status.parse().expect("a status")).collect(),
            });
        }
    }
    operations
});

impl Operation {
    /// The path with this id for every parameter. A QR code is a PNG.
    pub fn at(&self, id: &str) -> String {
        self.path.split('/').map(|segment| placed(segment, id)).collect::<Vec<_>>().join("/")
    }

    /// The path with these ids for its parameters.
    pub fn at_each(&self, ids: &[String]) -> String {
        let mut ids = ids.iter();
        let mut next = |segment: &'static str| ids.next().map_or(segment, String::as_str);
        self.path
            .split('/')
            .map(|segment| if segment.contains('{') { placed(segment, next("nothing")) } else { segment })
            .collect::<Vec<_>>()
            .join("/")
    }

    fn serves(&self, method: &Method, path: &str) -> bool {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let (mut ours, mut theirs) = (self.path.split('/'), path.split('/'));
        let fits = ours.by_ref().zip(theirs.by_ref()).all(|(our, their)| match our.split_once('{') {
            Some((fixed, _)) => their.starts_with(fixed),
            None => our == their,
        });
        self.method == *method && fits && self.path.split('/').count() == path.split('/').count()
    }
}

fn placed<'a>(segment: &'a str, id: &'a str) -> &'a str {
    match segment {
        "qr.{format}" => "qr.png",
        _ if segment.starts_with('{') => id,
        _ => segment,
    }
}

/// Every operation that is documented.
pub fn all() -> &'static [Operation] {
    &OPERATIONS
}

/// The operation that a request on the service's own host is for; fixed paths come before parameters.
pub(crate) fn of(method: &Method, path: &str) -> Option<&'static Operation> {
    OPERATIONS
        .iter()
        .filter(|operation| operation.serves(method, path))
        .min_by_key(|operation| operation.path.contains('{'))
}

/// Records that an operation answered with a status, to be compared with the documented ones.
pub(crate) fn met(operation: &'static Operation, status: StatusCode) {
    static MET: Mutex<BTreeSet<(&'static str, u16)>> = Mutex::new(BTreeSet::new());
    if MET.lock().unwrap_or_else(PoisonError::into_inner).insert((&operation.id, status.as_u16())) {
        let path = machine::target_tmp().join("answers-met.txt");
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the list of answers");
        // One write a line: other tests append to it at the same time.
        let line = format!("{} {}\n", operation.id, status.as_u16());
        file.write_all(line.as_bytes()).expect("the list grows");
    }
}
