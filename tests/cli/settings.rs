//! Flag over variable over profile over default.

use deeplink_testing::dl::{Dl, KEY};
use deeplink_testing::double::{Answer, Double, with_links};

#[test]
fn output_comes_from_flag_variable_profile_default() {
    let double = with_links(1);
    let dl = Dl::new().stored("default", &double.url, KEY);
    let form = |dl: &Dl, line: &str| match dl.run(line).ok() {
        "link-0000\n" => "id",
        text if text.starts_with("{\"links\"") => "json",
        text if text.starts_with("link_id,") => "csv",
        text if text.contains('\t') => "table",
        other => panic!("{other}"),
    };
    assert_eq!(form(&dl, "links list"), "table");
    dl.run("config set output csv").ok();
    assert_eq!(form(&dl, "links list"), "csv");
    let dl = dl.env("DL_OUTPUT", "json");
    assert_eq!(form(&dl, "links list"), "json");
    assert_eq!(form(&dl, "links list -o id"), "id");
    let dl = dl.env("DL_OUTPUT", "");
    assert_eq!(form(&dl, "links list"), "csv", "an empty variable is unset");
}

#[test]
fn base_url_comes_from_flag_variable_profile() {
    let [flag, variable, profile] = [with_links(0), with_links(0), with_links(0)];
    let dl = Dl::new().stored("default", &profile.url, KEY);
    dl.run("ping").fails(5);
    let dl = dl.env("DL_BASE_URL", &variable.url);
    dl.run("ping").fails(5);
    dl.run(&format!("ping --base-url {}", flag.url)).fails(5);
    for double in [flag, variable, profile] {
        assert_eq!(double.lines(), ["GET /health"]);
    }
}

#[test]
fn a_path_prefix_is_kept() {
    let double = Double::new(|_| Answer::new(200, r#"{"status":"ok"}"#));
    for prefix in ["/links", "/links/", "/a/b"] {
        Dl::at(&format!("{}{prefix}", double.url)).run("ping").ok();
    }
    assert_eq!(double.lines(), ["GET /links/health", "GET /links/health", "GET /a/b/health"]);
}

#[test]
fn retries_and_timeout_come_from_flag_or_variable() {
    let count = |dl: Dl, line: &str| {
        let double = Double::new(|_| Answer::error(503, "overloaded", "no").header("retry-after", "0"));
        dl.env("DL_BASE_URL", &double.url).run(line);
        double.requests().len()
    };
    assert_eq!(count(Dl::new(), "ping"), 3);
    assert_eq!(count(Dl::new().env("DL_RETRIES", "0"), "ping"), 1);
    assert_eq!(count(Dl::new().env("DL_RETRIES", "0"), "ping --retries 1"), 2);
    let slow = Double::new(|_| Answer::new(200, "{}").after(std::time::Duration::from_secs(20)));
    Dl::at(&slow.url).env("DL_TIMEOUT", "200ms").run("ping").fails(9);
    for (name, value) in [
        ("DL_RETRIES", "many"),
        ("DL_TIMEOUT", "90"),
        ("DL_PROGRESS", "maybe"),
        ("DL_OUTPUT", "xml"),
        ("DL_NO_INPUT", "maybe"),
        ("DL_PROFILE", "a b"),
    ] {
        assert_eq!(Dl::at(&slow.url).env(name, value).run("ping").code, Some(2), "{name}");
    }
}

#[test]
fn booleans_of_variables_have_three_words_each() {
    let dl = || Dl::at("http://127.0.0.1:1");
    for value in ["1", "true", "yes", "0", "false", "no", ""] {
        assert_eq!(dl().env("DL_NO_INPUT", value).run("config path").code, Some(0), "{value:?}");
    }
    let ran = dl().env("DL_NO_INPUT", "on").run("config path");
    insta::assert_snapshot!(ran, @r"
    --- stderr
    error: DL_NO_INPUT is not a boolean
      hint: use 1, true or yes; 0, false or no; or leave it empty
    --- exit 2
    ");
}

#[test]
fn profiles_come_from_flag_variable_active_default() {
    let doubles = [with_links(0), with_links(0), with_links(0), with_links(0)];
    let names = ["default", "active", "variable", "flag"];
    let dl = names.iter().zip(&doubles).fold(Dl::new(), |dl, (name, double)| dl.stored(name, &double.url, KEY));
    dl.run("links list").ok();
    dl.run("profile use active").ok();
    dl.run("links list").ok();
    let dl = dl.env("DL_PROFILE", "variable");
    dl.run("links list").ok();
    dl.run("links list --profile flag").ok();
    for (name, double) in names.iter().zip(&doubles) {
        assert_eq!(double.requests().len(), 1, "{name}");
    }
}

#[test]
fn an_unknown_profile_names_the_known_ones() {
    let dl = Dl::new().stored("one", "http://127.0.0.1:1", KEY).stored("two", "http://127.0.0.1:1", KEY);
    insta::assert_snapshot!(dl.run("links list --profile three"), @r#"
    --- stderr
    error[no_base_url]: no profile named "three"
      hint: use --base-url, DL_BASE_URL, or one of the profiles one, two
    --- exit 2
    "#);
    insta::assert_snapshot!(Dl::new().run("links list"), @r"
    --- stderr
    error[no_base_url]: no service is configured
      hint: use dl login --base-url https://dl.example.com, --base-url or DL_BASE_URL
    --- exit 2
    ");
}
