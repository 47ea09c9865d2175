//! `dl qr-logos`, local logos of `dl links qr`, and looks: what is sent and shown.

use deeplink_client::mock::fixtures;
use deeplink_core::qr::QrFormat;
use serde_json::{Value, json};

use crate::qr::{answer, names};
use crate::server::Server;
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, link, qr_code};

/// One red pixel.
const LOGO: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac8\xa0`\x00\x00\x02\xb4\x01\x11\x10=X\x1e\x00\x00\x00\x00IEND\xaeB`\x82";

fn service() -> Double {
    Double::new(|request| match (request.method.as_str(), request.path()) {
        ("GET", "/v1/qr-logos") => Answer::json(200, &json!({"logos": [fixtures::qr_logo("acme")]})),
        ("PUT", path) if path.starts_with("/v1/qr-logos/") => Answer::json(200, &json!(fixtures::qr_logo("acme"))),
        ("GET", "/v1/qr-logos/acme") => qr_code(QrFormat::Png),
        ("DELETE", "/v1/qr-logos/acme") => Answer::new(204, ""),
        (_, path) if path.starts_with("/v1/qr-logos") => Answer::error(404, "not_found", "no logo"),
        _ => answer(request),
    })
}

#[test]
fn logos_are_listed_uploaded_downloaded_and_deleted() {
    let double = service();
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("qr-logos list -o id").ok(), "acme\n");
    assert_eq!(
        dl.run("qr-logos list -o csv --fields name,width,height,bytes").ok(),
        "name,width,height,bytes\r\nacme,512,256,18432\r\n"
    );
    std::fs::write(dl.dir().join("logo.png"), LOGO).expect("a file");
    assert_eq!(dl.run("qr-logos put acme logo.png -o id").ok(), "acme\n");
    let sent = double.requests().pop().expect("a request");
    let body = String::from_utf8_lossy(LOGO).into_owned();
    assert_eq!((sent.line(), sent.body), ("PUT /v1/qr-logos/acme".to_owned(), body));
    assert_eq!(
        dl.run("qr-logos get acme --out acme.png -o json").json()["bytes"],
        json!(fixtures::qr_code(QrFormat::Png).len())
    );
    assert_eq!(std::fs::read(dl.dir().join("acme.png")).expect("a file"), fixtures::qr_code(QrFormat::Png));
    dl.run("qr-logos get acme --out acme.png").fails(2);
    dl.run("qr-logos get acme --out acme.png --force").ok();
    assert!(dl.run("qr-logos delete acme").fails(2).contains("--yes"));
    assert_eq!(dl.run("qr-logos delete acme --yes -o id").ok(), "acme\n");
    for line in ["qr-logos get other --out x.png", "qr-logos delete other --yes"] {
        assert!(dl.run(line).fails(5).contains("dl qr-logos list shows the account's logos"), "{line}");
    }
    let before = double.requests().len();
    for line in ["qr-logos put Acme logo.png", "qr-logos get a.png", "qr-logos delete '' --yes"] {
        assert!(dl.run(line).fails(3).starts_with("error[invalid_name]"), "{line}");
    }
    std::fs::write(dl.dir().join("huge.png"), vec![0; (512 << 10) + 1]).expect("a file");
    assert!(dl.run("qr-logos put acme huge.png").fails(3).contains("larger than 512 KiB"));
    dl.run("qr-logos put acme missing.png").fails(2);
    assert_eq!(double.requests().len(), before, "nothing is sent");
}

#[test]
fn a_local_logo_is_uploaded_once_for_all_codes() {
    let double = service();
    let dl = Dl::at(&double.url);
    std::fs::write(dl.dir().join("ACME Logo.png"), LOGO).expect("a file");
    let ran = dl.run("links qr spring-42 other-1 --dir out --logo './ACME Logo.png'");
    ran.ok();
    let lines = double.lines();
    let put: Vec<_> = lines.iter().filter(|line| line.starts_with("PUT ")).collect();
    let [put] = put.as_slice() else { panic!("{lines:?}") };
    let name = put.trim_start_matches("PUT /v1/qr-logos/");
    assert!(name.starts_with("acme-logo-") && name.len() == "acme-logo-".len() + 8, "{name}");
    assert_eq!(&lines[0], *put, "it is there before a code is drawn");
    let drawn = double.requests().into_iter().filter(|request| request.path().contains("/qr.png")).collect::<Vec<_>>();
    assert_eq!(drawn.len(), 2);
    assert!(drawn.iter().all(|request| request.target.ends_with(&format!("?logo=name%3A{name}"))), "{drawn:?}");
    assert!(ran.stderr.contains(&format!("uploaded ./ACME Logo.png as the logo {name}")), "{ran}");
    assert_eq!(names(&dl.dir().join("out")), ["other-1.png", "spring-42.png"]);
    // A name and a URL are sent as they are; with --hide-logo nothing is uploaded.
    let before = double.requests().len();
    dl.run("links qr spring-42 --out a.png -q --logo name:acme").ok();
    dl.run("links qr spring-42 --out b.png -q --hide-logo --logo './ACME Logo.png'").ok();
    let sent: Vec<_> = double.requests().split_off(before).into_iter().map(|request| request.target).collect();
    assert_eq!(sent, ["/v1/links/spring-42/qr.png?logo=name%3Aacme", "/v1/links/spring-42/qr.png?hideLogo=true"]);
    let dry = dl.run("links qr spring-42 -q --out c.png --dry-run --logo './ACME Logo.png'");
    assert!(dry.ok().starts_with(&format!("PUT /v1/qr-logos/{name}\n({} bytes)\nGET ", LOGO.len())), "{dry}");
}

#[test]
fn a_look_is_changed_option_by_option_and_verified() {
    let double = Double::new(|request| {
        if request.path().contains("/qr.") {
            return answer(request);
        }
        let mut link = link("spring-42");
        link["qr"] = json!({"dotType": "square", "bgColor": "#102030", "fgColor": "#ffffff"});
        Answer::json(200, &link)
    });
    let dl = Dl::at(&double.url);
    dl.run("links update spring-42 --qr dot-type=dots --qr level=h").ok();
    let merged = json!({"qr": {"level": "H", "dotType": "dots", "fgColor": "#ffffff", "bgColor": "#102030"}});
    assert_eq!(double.requests().pop().expect("a request").json(), merged);
    // White on white alone, but not on the link's background.
    dl.run("links update spring-42 --qr cornerDotColor=fff").ok();
    assert_eq!(double.requests().pop().expect("a request").json()["qr"]["cornerDotColor"], "#ffffff");
    assert!(dl.run("links update spring-42 --qr fgColor=102030").fails(3).contains("too close to the background"));
    for (line, says) in [
        ("--qr dotType", "--qr requires OPTION=VALUE"),
        ("--qr dots=1", "unknown option \"dots\""),
        ("--qr logo= --qr logo=name:x", "logo is specified more than once"),
        ("--qr level=q --qr level=h", "level is specified more than once"),
    ] {
        assert!(dl.run(&format!("links update spring-42 {line}")).fails(2).contains(says), "{line}");
    }
    assert!(dl.run("links create https://example.com --qr size=0").fails(3).contains("--qr size: must be"), "a value");
    assert!(dl.run("links update spring-42 --qr level=h --unset qr").fails(2).contains("both set and unset"));
    // The image that is read back has the look of the file.
    let before = double.requests().len();
    dl.run("links qr spring-42 --format svg --out a.svg --verify").ok();
    let mut asked: Vec<_> = double.requests().split_off(before).into_iter().map(|request| request.target).collect();
    asked.sort();
    let links = ["/v1/links/spring-42", "/v1/links/spring-42/qr.png?size=900", "/v1/links/spring-42/qr.svg"];
    assert_eq!(asked, links);
}

#[test]
fn a_look_with_a_logo_goes_from_end_to_end() {
    let server = Server::start();
    let dl = server.user("you");
    std::fs::write(dl.dir().join("logo.png"), LOGO).expect("a file");
    dl.run("qr-logos put acme logo.png").ok();
    dl.run("links create https://example.com/p/42 --id spring-42 --qr logo=name:acme --qr cornerSquareType=square")
        .ok();
    dl.run("links qr spring-42 --out kept.svg --verify").ok();
    assert!(dl.read("kept.svg").contains("<image "));
    dl.run("links qr spring-42 --out sent.svg --logo logo.png --verify").ok();
    assert!(dl.read("sent.svg").contains("<image "));
    assert_eq!(dl.run("qr-logos list -o id").ok().lines().count(), 2);
    dl.run("links export --out links.csv").ok();
    assert!(
        dl.read("links.csv").contains(r#""{""cornerSquareType"":""square"",""logo"":""name:acme""}""#),
        "{}",
        dl.read("links.csv")
    );
    dl.run("links import links.csv --on-conflict verify").ok();
    dl.run("links update spring-42 --unset qr").ok();
    dl.run("links import links.csv --on-conflict update").ok();
    let qr: Value = dl.run("links get spring-42 -o json").json()["qr"].clone();
    assert_eq!(qr, json!({"cornerSquareType": "square", "logo": "name:acme"}));
    dl.run("qr-logos delete acme --yes").ok();
    dl.run("links qr spring-42 --out without.svg --verify").ok();
    assert!(!dl.read("without.svg").contains("<image "));
}
