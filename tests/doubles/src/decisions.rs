//! The decision table as data, for the pure function in deeplink-core and for the whole service in its suites.
//!
//! Expected answers are written in the notation of the rules: `IL IS AL AS W` as stored, `W′` and `AS′` rewritten, `alt`
//! the alternate host.

/// The link that every row is about.
pub const LINK_ID: &str = "AbC12345";
/// Its short link.
pub const LINK_URL: &str = "https://go.example.com/AbC12345";

/// Its deep link for iOS.
pub const IL: &str = "shop://promo/1";
/// The same, as a web address.
pub const IL_WEB: &str = "https://app.example.com/promo/1";
/// Its store page for iOS.
pub const IS: &str = "https://apps.apple.com/app/id123456789";
/// Its deep link for Android.
pub const AL: &str = "shop://promo/1?x=2";
/// The same, as a web address.
pub const AL_WEB: &str = "https://app.example.com/promo/1?x=2";
/// Its store page for Android.
pub const AS: &str = "https://play.google.com/store/apps/details?id=com.example.app";
/// Its web page.
pub const W: &str = "https://example.com/promo";

/// Safari on a phone.
pub const IPHONE: &str =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Safari/604.1";
/// Chrome on a phone.
pub const ANDROID: &str =
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36";
/// Safari on a Mac, which an iPad pretends to be.
pub const MAC: &str =
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.5 Safari/605.1.15";
/// Chrome on Windows.
pub const WINDOWS: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36";
/// Chrome on Linux.
pub const LINUX: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36";
/// Firefox on Android, which does not follow intents.
pub const FIREFOX: &str = "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0";
/// Bots known by name.
pub const LISTED: [&str; 3] = ["facebookexternalhit/1.1", "GPTBot/1.2", "Googlebot/2.1"];

/// The query of every visit in these tests, so that rewritten URLs differ from stored ones.
pub const CAMPAIGN: &str = "utm_source=poster";

/// A bot's User-Agent. Without `Firefox/`, which some rows have: bots do not send it.
pub fn as_listed(agent: &str, name: &str) -> String {
    format!("{} {name}", agent.replace("Firefox/", "Gecko/"))
}

/// The destinations named in `has`, such as `"IL AS W"`, in the order `IL IS AL AS W`; `IL*` and `AL*` are http(s) ones.
pub fn destinations(has: &str) -> [Option<&'static str>; 5] {
    let named = |names: [(&str, &'static str); 2]| {
        names.into_iter().find(|(name, _)| has.split(' ').any(|word| word == *name)).map(|(_, url)| url)
    };
    [
        named([("IL", IL), ("IL*", IL_WEB)]),
        named([("IS", IS); 2]),
        named([("AL", AL), ("AL*", AL_WEB)]),
        named([("AS", AS); 2]),
        named([("W", W); 2]),
    ]
}

/// A URL in the notation of the table.
pub fn symbol(url: &str) -> String {
    let alternate = "https://alt.example.com/AbC12345?utm_source=poster";
    let known = match url {
        IL | IL_WEB => "IL",
        IS => "IS",
        AL | AL_WEB => "AL",
        "https://example.com/promo?utm_source=poster" => "W′",
        "https://play.google.com/store/apps/details?id=com.example.app&referrer=dl_link%3DAbC12345%26utm_source%3Dposter" => {
            "AS′"
        }
        LINK_URL => "url",
        _ if url == alternate => "alt",
        _ if url.strip_suffix("&os=ios") == Some(alternate) => "alt+os",
        _ if url.starts_with("intent:") => "intent",
        other => other,
    };
    known.to_owned()
}

/// The alternate host of a link that has one.
pub const ALT: Option<&str> = Some("https://alt.example.com");

/// A row of the table: name, agent, destinations, alternate host, and the answers to a browser, an in-app browser,
/// `redirect=1`, and a listed bot on the same platform.
pub struct Row(pub &'static str, pub &'static str, pub &'static str, pub Option<&'static str>, pub [&'static str; 4]);

/// The table.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    Row("D1", IPHONE, "IL IS W", ALT, ["LP open=alt store=IS web=W′", "LP open=alt store=IS web=W′", "302 IS", "LP open=alt store=IS web=W′"]),
    Row("D1", IPHONE, "IL", ALT, ["LP open=alt", "LP open=alt", "LP open=alt", "LP open=alt"]),
    Row("D1", IPHONE, "IS", ALT, ["LP open=alt store=IS", "LP open=alt store=IS", "302 IS", "LP open=alt store=IS"]),
    Row("D1", IPHONE, "IL* AL AS", ALT, ["LP open=alt", "LP open=alt", "LP open=alt", "LP open=alt"]),
    Row("D2", IPHONE, "IL IS W", None, ["LP open=IL timer=IS store=IS web=W′", "LP open=IS web=W′ deep=IL", "302 IS", "LP open=IL timer=IS store=IS web=W′"]),
    Row("D2", IPHONE, "IL W", None, ["LP open=IL timer=W′ web=W′", "LP open=W′ deep=IL", "LP open=IL timer=W′ web=W′", "LP open=IL timer=W′ web=W′"]),
    Row("D2", IPHONE, "IL", None, ["LP open=IL", "LP open=IL", "LP open=IL", "LP open=IL"]),
    Row("D2", IPHONE, "IL AL AS", None, ["LP open=IL", "LP open=IL", "LP open=IL", "LP open=IL"]),
    Row("D3", IPHONE, "IL* IS W", None, ["LP open=IL store=IS web=W′", "LP open=IS web=W′ deep=IL", "302 IS", "LP open=IL store=IS web=W′"]),
    Row("D3", IPHONE, "IL*", None, ["LP open=IL", "LP open=IL", "LP open=IL", "LP open=IL"]),
    Row("D4", IPHONE, "IS W", None, ["LP open=IS web=W′", "LP open=IS web=W′", "302 IS", "LP open=IS web=W′"]),
    Row("D4", IPHONE, "IS AL AS", None, ["LP open=IS", "LP open=IS", "302 IS", "LP open=IS"]),
    Row("D5", IPHONE, "AL AS W", None, ["LP open=W′", "LP open=W′", "LP open=W′", "LP open=W′"]),
    Row("D5", IPHONE, "AL AS", ALT, ["LP android-store=AS′", "LP android-store=AS′", "LP android-store=AS′", "LP android-store=AS′"]),
    Row("D5", IPHONE, "AL", None, ["LP", "LP", "LP", "LP"]),
    Row("D6", ANDROID, "AL AS W", ALT, ["LP open=alt store=AS′ web=W′", "LP open=intent timer=AS′ store=AS′ web=W′", "302 AS′", "LP open=alt store=AS′ web=W′"]),
    Row("D6", ANDROID, "AL W", ALT, ["LP open=alt web=W′", "LP open=alt web=W′", "LP open=alt web=W′", "LP open=alt web=W′"]),
    Row("D6", ANDROID, "AS", ALT, ["LP open=alt store=AS′", "LP open=alt store=AS′", "302 AS′", "LP open=alt store=AS′"]),
    Row("D6", FIREFOX, "AL AS", ALT, ["LP open=alt store=AS′", "LP open=alt store=AS′", "302 AS′", "LP open=alt store=AS′"]),
    Row("D7", ANDROID, "AL AS W", None, ["LP open=intent store=AS′ web=W′", "LP open=intent timer=AS′ store=AS′ web=W′", "302 AS′", "LP open=intent store=AS′ web=W′"]),
    Row("D7", ANDROID, "AL* AS IL IS", None, ["LP open=intent store=AS′", "LP open=intent timer=AS′ store=AS′", "302 AS′", "LP open=intent store=AS′"]),
    Row("D8", FIREFOX, "AL AS W", None, ["LP open=AL timer=AS′ store=AS′ web=W′", "LP open=AS′ web=W′ deep=AL", "302 AS′", "LP open=intent store=AS′ web=W′"]),
    Row("D8", ANDROID, "AL W", None, ["LP open=AL timer=W′ web=W′", "LP open=W′ deep=AL", "LP open=AL timer=W′ web=W′", "LP open=AL timer=W′ web=W′"]),
    Row("D8", ANDROID, "AL", None, ["LP open=AL", "LP open=AL", "LP open=AL", "LP open=AL"]),
    Row("D8", ANDROID, "AL* W", None, ["LP open=AL web=W′", "LP open=W′ deep=AL", "LP open=AL web=W′", "LP open=AL web=W′"]),
    Row("D9", ANDROID, "AS W", None, ["LP open=AS′ web=W′", "LP open=AS′ web=W′", "302 AS′", "LP open=AS′ web=W′"]),
    Row("D9", ANDROID, "AS IL IS", None, ["LP open=AS′", "LP open=AS′", "302 AS′", "LP open=AS′"]),
    Row("D10", ANDROID, "IL IS W", None, ["LP open=W′", "LP open=W′", "LP open=W′", "LP open=W′"]),
    Row("D10", ANDROID, "IL IS", ALT, ["LP ios-store=IS", "LP ios-store=IS", "LP ios-store=IS", "LP ios-store=IS"]),
    Row("D11", MAC, "IL IS AS W", None, ["LP open=W′ ios-store=IS android-store=AS′ ipad=IL ipad-timer=IS", "LP open=W′ ios-store=IS android-store=AS′ ipad=IS", "LP open=W′ ios-store=IS android-store=AS′ ipad=IL ipad-timer=IS", "LP open=W′ ios-store=IS android-store=AS′ ipad=IL ipad-timer=IS"]),
    Row("D11", MAC, "IL", None, ["LP ipad=IL", "LP ipad=IL", "LP ipad=IL", "LP ipad=IL"]),
    Row("D11", MAC, "IL* W", None, ["LP open=W′ ipad=IL", "LP open=W′ ipad=W′", "LP open=W′ ipad=IL", "LP open=W′ ipad=IL"]),
    Row("D11", MAC, "IS", None, ["LP ios-store=IS ipad=IS", "LP ios-store=IS ipad=IS", "LP ios-store=IS ipad=IS", "LP ios-store=IS ipad=IS"]),
    Row("D11", MAC, "IS W", ALT, ["LP open=W′ ios-store=IS ipad=alt+os", "LP open=W′ ios-store=IS ipad=alt+os", "LP open=W′ ios-store=IS ipad=alt+os", "LP open=W′ ios-store=IS ipad=alt+os"]),
    Row("D12", MAC, "AL AS W", ALT, ["LP open=W′ android-store=AS′", "LP open=W′ android-store=AS′", "302 W′", "LP open=W′ android-store=AS′"]),
    Row("D12", MAC, "AS", None, ["LP android-store=AS′", "LP android-store=AS′", "LP android-store=AS′", "LP android-store=AS′"]),
    Row("D13", WINDOWS, "IL IS AL AS W", ALT, ["LP open=W′ ios-store=IS android-store=AS′", "LP open=W′ ios-store=IS android-store=AS′", "302 W′", "LP open=W′ ios-store=IS android-store=AS′"]),
    Row("D13", WINDOWS, "IL", None, ["LP", "LP", "LP", "LP"]),
    Row("D13", LINUX, "AS W", None, ["LP open=W′ android-store=AS′", "LP open=W′ android-store=AS′", "302 W′", "LP open=W′ android-store=AS′"]),
    Row("D13", LINUX, "IS", None, ["LP ios-store=IS", "LP ios-store=IS", "LP ios-store=IS", "LP ios-store=IS"]),
    Row("D14", IPHONE, "W", ALT, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D14", ANDROID, "W", ALT, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D14", MAC, "W", None, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D14", WINDOWS, "W", None, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D14", LINUX, "W", None, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D15", IPHONE, "", ALT, ["LP", "LP", "LP", "LP"]),
    Row("D15", ANDROID, "", None, ["LP", "LP", "LP", "LP"]),
    Row("D15", MAC, "", None, ["LP", "LP", "LP", "LP"]),
    Row("D15", WINDOWS, "", None, ["LP", "LP", "LP", "LP"]),
];
