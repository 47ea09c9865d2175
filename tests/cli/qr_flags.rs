//! The flags of `dl links qr`: their requests, and how a refusal names them.

use deeplink_core::qr::QrOptions;

use crate::qr::{answer, names, run, service};
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double};

#[test]
fn every_flag_is_a_parameter() {
    let double = service();
    let dl = Dl::at(&double.url);
    run(
        &dl,
        "links qr spring-42 --size 0300 --level q --margin 0 --dot-type Classy-Rounded --corner-square-type dot \
         --corner-dot-type square --shape circle --fg-color '#010203' --bg-color fefefe --dot-color 009 \
         --corner-square-color 090000 --corner-dot-color '#090' --logo 'https://example.com/a.png?b=c&d=e'",
    );
    let target = double.requests().into_iter().map(|request| request.target).find(|target| target.contains("/qr."));
    let target = target.expect("a code is asked for");
    let (path, query) = target.split_once('?').expect("a query");
    assert_eq!(path, "/v1/links/spring-42/qr.png");
    let wanted = QrOptions::from_query(
        "size=300&level=Q&margin=0&dotType=classy-rounded&cornerSquareType=dot&cornerDotType=square&shape=circle\
         &fgColor=010203&bgColor=fefefe&dotColor=000099&cornerSquareColor=090000&cornerDotColor=009900\
         &logo=https%3A%2F%2Fexample.com%2Fa.png%3Fb%3Dc%26d%3De",
        |_| false,
    );
    assert_eq!(QrOptions::from_query(query, |_| false), wanted, "{query}");
    run(&dl, "links qr spring-42 --hide-logo --logo ftp://nowhere -q");
    assert_eq!(double.requests()[2].target, "/v1/links/spring-42/qr.png?hideLogo=true");
}

#[test]
fn what_breaks_a_rule_is_named_by_its_flag_and_not_sent() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (flags, field, says) in [
        ("--size 0", "size", "--size: must be a whole number from 1 to 2048"),
        ("--size 2049", "size", "--size: must be"),
        ("--size -1", "size", "--size: must be"),
        ("--size 6e2", "size", "--size: must be"),
        ("--size ''", "size", "--size: must be"),
        ("--margin 17", "margin", "--margin: must be a whole number from 0 to 16"),
        ("--margin 2.5", "margin", "--margin: must be"),
        ("--fg-color red", "fgColor", "--fg-color: must be 3 or 6 hex digits"),
        ("--bg-color '#ffff'", "bgColor", "--bg-color: must be"),
        ("--dot-color 12345g", "dotColor", "--dot-color: must be"),
        ("--corner-square-color ''", "cornerSquareColor", "--corner-square-color: must be"),
        ("--corner-dot-color x", "cornerDotColor", "--corner-dot-color: must be"),
        ("--fg-color c8c8c8", "fgColor", "--fg-color: the dots (#c8c8c8) are too close to the background"),
        ("--bg-color 000", "bgColor", "--bg-color: the dots"),
        ("--corner-dot-color eee", "cornerDotColor", "--corner-dot-color: the corner dots"),
        ("--logo ftp://example.com/x.png", "logo", "--logo: "),
        ("--logo x.png", "logo", "--logo: "),
    ] {
        let ran = dl.run(&format!("links qr spring-42 --out x.png {flags}"));
        assert!(ran.fails(3).starts_with(&format!("error[invalid_qr_options]: {says}")), "{flags}: {ran}");
        let ran = dl.run(&format!("links qr spring-42 --out x.png -o json {flags}"));
        assert_eq!((ran.code, ran.error()["field"].as_str()), (Some(3), Some(field)), "{flags}: {ran}");
    }
    for (flags, says) in [
        ("--format jpg", "[possible values: png, svg, pdf, eps]"),
        ("--level X", "[possible values: L, M, Q, H]"),
        ("--dot-type dot", "[possible values: square, dots, rounded, classy, classy-rounded, extra-rounded]"),
        ("--corner-square-type rounded", "[possible values: square, dot, extra-rounded]"),
        ("--corner-dot-type dots", "[possible values: dot, square]"),
        ("--shape round", "[possible values: square, circle]"),
        ("--size 300 --size 300", "cannot be used multiple times"),
        ("--include-margin", "unexpected argument"),
        ("--format svg --out a.png", "--format svg conflicts with --out a.png"),
        ("--format png --out a.SVG", "omit --format, or use a file name ending in .png"),
        (
            "--out a.jpg",
            "--out: unsupported file type .jpg hint: use a file name ending in .png, .svg, .pdf or .eps, or --format",
        ),
        ("--out a.b.", "--out: unsupported file type . "),
        ("--skip-existing", "--skip-existing works only with --dir DIR"),
        ("--skip-existing --out a.png", "--skip-existing works only with --dir DIR"),
        ("--skip-existing --dir b --force", "cannot be used with"),
        ("--out a.png --dir b", "'--out <FILE>' cannot be used with '--dir <DIR>'"),
        ("--out -  --show", "--show and --out - both write to stdout"),
        ("--show --verify", "--verify checks an image from the service"),
        ("--force", "--force works only with --out FILE or --dir DIR"),
        ("--force --out -", "--force works only with"),
        ("--invert", "--invert works only with a code displayed as text"),
        ("--invert --out x.png", "--invert works only with"),
        ("-o json", "-o and --fields list files"),
        ("-o id --out -", "-o and --fields list files"),
        ("--fields id", "-o and --fields list files"),
        ("--show --out x.png -o json", "-o and --fields list files and do not work with a displayed code"),
        ("--out x.png --fields id,size", "--fields: unknown field \"size\""),
        ("other-1", "cannot write 2 codes into one file"),
        ("other-1 --out x.png", "cannot write 2 codes into one file"),
        (
            "--out nowhere/x.png",
            "--out: no such directory: nowhere hint: create it first, or use --dir DIR, which is created if missing",
        ),
        ("--out .", "--out: . is a directory hint: use --dir . to write ID.png there"),
        ("--out nodir/", "--out: nodir/ is a directory hint: use --dir nodir/ to write ID.png there"),
        ("--dir file", "--dir: file is a file, not a directory hint: use another directory"),
    ] {
        dl.file("file", "");
        let ran = dl.run(&format!("links qr spring-42 {flags}"));
        assert_eq!(ran.code, Some(2), "{flags}: {ran}");
        assert!(ran.says(says), "{flags}: {ran}");
    }
    dl.run("links qr ab --dir out").fails(3);
    assert!(double.requests().is_empty(), "{:?}", double.lines());
    assert_eq!(names(dl.dir()), ["file"]);
}

#[test]
fn what_the_service_refuses_is_named_by_its_flag_with_what_it_takes() {
    for (field, message, says) in [
        (
            "size",
            "size must be at least 66 for this link and these options",
            "--size: must be at least 66 for this link and these options\n  hint: use a smaller --margin",
        ),
        (
            "logo",
            "logo: could not be fetched",
            "--logo: could not be fetched\n  hint: the service fetches it: use a public http(s) URL that returns 200 \
                without a redirect within 5 s\n",
        ),
        (
            "logo",
            "logo: image too large",
            "--logo: image too large\n  hint: the maximum is 4,096 px per side, 16 megapixels and 512 KiB, less for \
                progressive JPEG, WebP and interlaced PNG: save it as a baseline JPEG or a non-interlaced PNG\n",
        ),
        (
            "logo",
            "logo: larger than 512 KiB",
            "--logo: larger than 512 KiB\n  hint: the maximum is 4,096 px per side, 16 megapixels and 512 KiB\n",
        ),
        (
            "logo",
            "logo: lossless WebP and WebP with compressed transparency are not supported; use PNG",
            "--logo: lossless WebP and WebP with compressed transparency are not supported; use PNG\n  \
             hint: save it as a PNG, or as a lossy WebP without transparency\n",
        ),
        ("logo", "logo: not a PNG, JPEG or WebP image", "--logo: not a PNG, JPEG or WebP image\n  hint: SVG and GIF"),
        ("bgColor", "bgColor: made later", "--bg-color: made later\n"),
    ] {
        let double = Double::new(move |request| {
            if !request.path().contains("/qr.") {
                return answer(request);
            }
            Answer::json(400, &serde_json::json!({"error": message, "code": "invalid_qr_options", "field": field}))
        });
        let ran = Dl::at(&double.url).run("links qr spring-42 --out x.png");
        assert!(ran.fails(3).starts_with(&format!("error[invalid_qr_options]: {says}")), "{ran}");
        let several = Dl::at(&double.url).run("links qr spring-42 other-1 --dir x -o json").error();
        assert_eq!((&several["items"][1]["status"], &several["items"][1]["field"]), (&400.into(), &field.into()));
    }
    // A value that is never sent has the same hint.
    let double = service();
    let dl = Dl::at(&double.url);
    assert!(
        dl.run("links qr spring-42 --out x.png --logo there.png")
            .fails(3)
            .contains("hint: the service fetches it: use a")
    );
    let nowhere = dl.run("links qr spring-42 --out x.png --logo ./there.png");
    assert!(nowhere.fails(2).contains("cannot read ./there.png"), "{nowhere}");
    assert!(double.requests().is_empty());
}

#[test]
fn help_says_what_a_print_needs() {
    let help = Dl::new().run("links qr --help");
    let help = help.ok().split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "For print, use --level M or higher, --margin 2 or more, dark modules on a light background and at least 3 px per module.",
        "SVG, PDF and EPS files are verified by decoding a PNG with the same design",
        "circle surrounds the code with decorative dots",
        "Background color, without #",
        "It uses the link's saved design (dl links update --qr) unless you specify any style flag other than --size.",
    ] {
        assert!(help.contains(says), "{says}: {help}");
    }
}
