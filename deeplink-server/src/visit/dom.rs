//! A page parsed like in a browser, for tests.

use html5ever::tendril::TendrilSink;
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// All elements of a parsed document, in document order.
pub(crate) struct Dom(Vec<Element>);

/// One element.
#[derive(Clone)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    text: String,
    depth: usize,
}

impl Dom {
    pub(crate) fn parse(html: &str) -> Self {
        let dom = html5ever::parse_document(RcDom::default(), html5ever::ParseOpts::default()).one(html);
        assert!(dom.errors.borrow().is_empty(), "a strict parser complains: {:?}", dom.errors.borrow());
        let mut elements = Vec::new();
        collect(&dom.document, 0, &mut elements);
        Self(elements)
    }

    pub(crate) fn elements(&self) -> &[Element] {
        &self.0
    }

    pub(crate) fn all(&self, name: &str) -> Vec<Element> {
        self.0.iter().filter(|element| element.name == name).cloned().collect()
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<Element> {
        let mut found = self.0.iter().filter(|element| element.attr("id").as_deref() == Some(id));
        let first = found.next().cloned();
        assert!(found.next().is_none(), "{id} occurs twice");
        first
    }

    /// The structure of the page, without texts and attribute values, except ids.
    pub(crate) fn shape(&self) -> Vec<String> {
        let names = |element: &Element| {
            let attributes = element
                .attributes
                .iter()
                .map(|(name, value)| if name == "id" { format!("{name}={value}") } else { name.clone() });
            attributes.collect::<Vec<_>>().join(" ")
        };
        self.0
            .iter()
            .map(|element| format!("{}{} {}", " ".repeat(element.depth), element.name, names(element)))
            .collect()
    }
}

impl Element {
    pub(crate) fn attr(&self, name: &str) -> Option<String> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// All text inside.
    pub(crate) fn text(&self) -> String {
        self.text.clone()
    }
}

fn collect(node: &Handle, depth: usize, elements: &mut Vec<Element>) {
    if let NodeData::Element { name, attrs, .. } = &node.data {
        let attributes =
            attrs.borrow().iter().map(|attr| (attr.name.local.to_string(), attr.value.to_string())).collect();
        elements.push(Element { name: name.local.to_string(), attributes, text: text(node), depth });
    }
    for child in node.children.borrow().iter() {
        collect(child, depth + 1, elements);
    }
}

fn text(node: &Handle) -> String {
    match &node.data {
        NodeData::Text { contents } => contents.borrow().to_string(),
        _ => node.children.borrow().iter().map(text).collect(),
    }
}
