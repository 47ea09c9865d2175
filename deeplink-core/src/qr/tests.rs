//! The tables of the interface: what each parameter takes, defaults, limits, contrast.

use super::*;

/// The parameters in the order in which they are checked.
const PARAMETERS: &str = include_str!("../../../tests/common/qr-parameters.txt");

fn style(query: &str) -> Result<QrStyle, Invalid> {
    QrOptions::from_query(query, |_| false)?.check()
}

/// The parameter that the error names.
fn at_fault(query: &str) -> Option<String> {
    let refused = style(query).err()?;
    assert_eq!(refused.code, ErrorCode::InvalidQrOptions, "{query}");
    let field = refused.field.expect("a field").into_owned();
    assert!(refused.message.starts_with(&format!("{field}: ")), "{}", refused.message);
    Some(field)
}

#[test]
fn each_parameter_takes_its_values_and_no_others() {
    let colours = (
        "000 fff %23000000 #AbCdEf 0a7cff",
        "red #ffff #12345g rgb(0,0,0) %23%23fff fffffff red;}body{ %23fff\"/><script>",
    );
    let logos = (
        "https://example.com/x.png http://example.com:8080/x https://8.8.8.8/a?b=c",
        "ftp://example.com/x https://localhost/x.png https://127.0.0.1/x https://u@example.com/x x.png",
    );
    for (name, (accepted, refused)) in [
        ("size", ("1 600 2048 0600", "0 2049 -1 %2B5 6e2 600.0 abc 4294967296 1e9 0000000600 ٣")),
        ("level", ("L M Q H l m q h", "X LOW 0")),
        ("margin", ("0 2 16 016", "17 -1 2.5 %20")),
        ("includeMargin", ("true false 1 0 TRUE False", "yes 2 no")),
        ("dotType", ("square dots rounded classy classy-rounded extra-rounded Classy-Rounded", "dot classyrounded")),
        ("cornerSquareType", ("square dot extra-rounded", "rounded dots")),
        ("cornerDotType", ("dot square DOT", "dots extra-rounded")),
        ("shape", ("square circle", "round")),
        ("fgColor", colours),
        ("bgColor", colours),
        ("dotColor", colours),
        ("cornerSquareColor", colours),
        ("cornerDotColor", colours),
        ("hideLogo", ("true false 1 0", "2")),
        ("logo", logos),
    ] {
        for value in accepted.split(' ') {
            let query = format!("{name}={}", value.replace('#', "%23"));
            assert!(QrOptions::from_query(&query, |_| false).is_ok(), "{query}");
        }
        for value in refused.split(' ') {
            let query = format!("{name}={}", value.replace('#', "%23"));
            assert_eq!(at_fault(&query).as_deref(), Some(name), "{query}");
        }
        let (value, _) = accepted.split_once(' ').expect("a value");
        let twice = format!("{name}={value}&{name}={value}");
        for query in [format!("{name}="), name.to_owned(), twice] {
            assert_eq!(at_fault(&query).as_deref(), Some(name), "{query}");
        }
        let elsewhere = format!("{}=%00&unknown=1&unknown=2&{}", name.to_uppercase(), "x");
        assert_eq!(style(&elsewhere), Ok(QrStyle::default()), "names are case-sensitive, unknown ones ignored");
    }
}

#[test]
fn the_first_parameter_at_fault_is_named() {
    let order: Vec<_> = PARAMETERS.lines().collect();
    for at in 0..order.len() {
        let query: Vec<_> = order[at..].iter().rev().map(|name| format!("{name}=?")).collect();
        assert_eq!(at_fault(&query.join("&")).as_deref(), Some(order[at]));
    }
}

#[test]
fn margin_and_logo_have_their_defaults() {
    for (query, margin) in [
        ("", 2),
        ("includeMargin=true", 2),
        ("includeMargin=false", 0),
        ("includeMargin=0&margin=5", 5),
        ("margin=0", 0),
    ] {
        assert_eq!(style(query).map(|style| style.margin), Ok(margin), "{query}");
    }
    assert_eq!(at_fault("includeMargin=x&margin=4").as_deref(), Some("includeMargin"));
    let logo = "logo=https://example.com/x.png";
    for (query, drawn, level) in [
        (String::new(), false, QrLevel::L),
        ("hideLogo=true".into(), false, QrLevel::L),
        (logo.into(), true, QrLevel::H),
        (format!("{logo}&hideLogo=0"), true, QrLevel::H),
        (format!("{logo}&hideLogo=1"), false, QrLevel::L),
        (format!("{logo}&level=L"), true, QrLevel::L),
        // A hidden logo is not checked.
        ("hideLogo=true&logo=ftp://localhost".into(), false, QrLevel::L),
    ] {
        let style = style(&query).expect("a style");
        assert_eq!((style.logo.is_some(), style.level), (drawn, level), "{query}");
    }
}

#[test]
fn what_hardly_differs_from_the_background_is_refused() {
    for (fg, bg, ratio, passes) in [
        ("000000", "FFFFFF", 21.00, true),
        ("C8C8C8", "FFFFFF", 1.67, false),
        ("B7B7B7", "FFFFFF", 2.006, true),
        ("B8B8B8", "FFFFFF", 1.984, false),
        ("FFFFFF", "1A1A1A", 17.40, true),
        ("FFCC00", "FFFFFF", 1.51, false),
        ("FF0000", "0000FF", 2.15, true),
        ("777777", "888888", 1.26, false),
    ] {
        let contrast = Rgb::parse_lenient(fg).expect("a color").contrast(Rgb::parse_lenient(bg).expect("a color"));
        assert!((contrast - ratio).abs() < 0.005, "{fg} on {bg}: {contrast}");
        assert_eq!(style(&format!("fgColor={fg}&bgColor={bg}")).is_ok(), passes, "{fg} on {bg}");
    }
    for (query, field) in [
        ("bgColor=000", "bgColor"),
        ("fgColor=eee&dotColor=000", "fgColor"),
        ("dotColor=eee&cornerDotColor=eee", "dotColor"),
        ("cornerSquareColor=eee&cornerDotColor=eee", "cornerSquareColor"),
        ("cornerDotColor=eee", "cornerDotColor"),
        // Contrast is judged after every parameter.
        ("fgColor=fff&logo=x", "logo"),
    ] {
        assert_eq!(at_fault(query).as_deref(), Some(field), "{query}");
    }
    // Readable for people, not for readers: as bright as the background, or on both sides of it.
    for (query, field) in [
        ("bgColor=1ace08&cornerDotColor=77795c", "cornerDotColor"),
        ("bgColor=ec6c1d&cornerSquareColor=36f118", "cornerSquareColor"),
        ("bgColor=b681d0&dotColor=0efd56", "dotColor"),
        ("bgColor=777&cornerSquareColor=fff", "cornerSquareColor"),
        ("bgColor=777&fgColor=fff&cornerDotColor=000", "cornerDotColor"),
        ("bgColor=777&fgColor=fff&dotColor=000", "fgColor"),
    ] {
        assert_eq!(at_fault(query).as_deref(), Some(field), "{query}");
    }
    let own = "fgColor=fff&dotColor=000&cornerSquareColor=00f&cornerDotColor=700";
    assert!(style(own).is_ok(), "each part has its own color");
    let refused = style("fgColor=B8B8B8").expect_err("a refusal");
    assert!(refused.message.contains("the contrast is 1.98"), "{}", refused.message);
}

#[test]
fn options_that_are_sent_are_options_that_are_read() {
    let options = QrOptions::new()
        .size(300_u32)
        .level(QrLevel::Q)
        .margin(0_u32)
        .dot_type(DotType::ClassyRounded)
        .corner_square_type(CornerSquareType::Dot)
        .corner_dot_type(CornerDotType::Square)
        .shape(QrShape::Circle)
        .fg_color(Rgb([1, 2, 3]))
        .bg_color(Rgb([250, 251, 252]))
        .dot_color(Rgb([0, 0, 9]))
        .corner_square_color(Rgb([0, 9, 0]))
        .corner_dot_color(Rgb([9, 0, 0]))
        .hide_logo(false)
        .logo("https://example.com/a.png?b=c&d=e");
    let sent = serde_json::to_value(&options).expect("an object");
    let mut query = ::url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in sent.as_object().expect("an object") {
        query.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    assert_eq!(QrOptions::from_query(&query.finish(), |_| false), Ok(options));
    for options in [QrOptions::new().size(2_049_u32), QrOptions::new().margin(17_u32), QrOptions::new().logo("x")] {
        assert!(options.check().is_err(), "{options:?}");
    }
}

#[test]
fn where_a_logo_may_be_fetched_from_can_be_widened() {
    let query = "logo=http://127.0.0.1:8080/x.png";
    assert!(QrOptions::from_query(query, |_| false).is_err());
    assert!(QrOptions::from_query(query, |address| address.is_loopback()).is_ok());
}
