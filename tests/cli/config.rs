//! Profiles and settings.

use deeplink_testing::dl::{Dl, KEY};

#[test]
fn profiles_are_added_used_and_removed() {
    let dl = Dl::new();
    dl.run("profile add one --base-url https://one.example.com/").ok();
    dl.run("profile add two --base-url https://two.example.com").ok();
    assert_eq!(
        dl.run("profile list --fields name,active,base_url").ok(),
        "one\ttrue\thttps://one.example.com\ntwo\tfalse\thttps://two.example.com\n"
    );
    dl.run("profile use two").ok();
    assert_eq!(dl.run("config get base_url").ok(), "https://two.example.com\n");
    assert_eq!(dl.run("config get base_url --profile one").ok(), "https://one.example.com\n");
    dl.run("profile add two --base-url https://two.example.com").fails(2);
    dl.run("profile add 'a b' --base-url https://two.example.com").fails(2);
    dl.run("profile add three").fails(2);
    dl.run("profile remove two").ok();
    assert_eq!(dl.run("profile list -o id").ok(), "one\n");
    assert!(dl.run("profile remove two").fails(2).contains("available profiles: one"));
}

#[test]
fn removing_a_profile_removes_its_key() {
    let dl = Dl::new().stored("old", "https://dl.example.com", KEY);
    dl.run("profile remove old --dry-run").ok();
    assert!(std::fs::read_to_string(dl.config("credentials.toml")).expect("a file").contains(KEY));
    dl.run("profile remove old").ok();
    assert!(!std::fs::read_to_string(dl.config("credentials.toml")).expect("a file").contains(KEY));
}

#[test]
fn settings_are_read_and_changed() {
    let dl = Dl::new();
    assert_eq!(dl.run("config path").ok(), format!("{}\n", dl.config("config.toml").display()));
    dl.run("config set base_url https://DL.example.com/").ok();
    dl.run("config set output json").ok();
    dl.run("config set active_profile default").ok();
    insta::assert_snapshot!(dl.run("config get -o csv").ok().replace("\r\n", "\n"), @r"
    key,value
    active_profile,default
    base_url,https://dl.example.com
    output,json
    ");
    dl.run("config set output ''").ok();
    assert_eq!(dl.run("config get output").ok(), "\n");
    dl.run("config set active_profile nowhere").fails(2);
    dl.run("config set key secret").fails(2);
}
