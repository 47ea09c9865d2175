//! A file of each service, with the columns that its documentation names; `docs/moving-in.md` says where, and what could not
//! be verified.

use serde_json::{Value, json};

use super::moved;
use crate::import::service;
use deeplink_testing::dl::Dl;

/// The columns of a recent file. Bitly does not document them.
pub(super) const BITLY: &str = "\
Link,Custom Link,Date created,Title,Destination URL,Engagements,Status
https://bit.ly/3xYz9Ab,https://go.example.com/spring-sale,2025-03-01T09:30:00+0000,Spring sale,https://example.com/sale?utm_source=bitly,\"1,204\",Active
https://bit.ly/4AbCdEf,,2024-12-24,,https://example.com/about,7,Archived
";

/// The columns of `exportLinksColumns` in <https://github.com/dubinc/dub>.
pub(super) const DUB_CSV: &str = "\
Short link,Destination URL,Clicks,Created at,Updated at,Tags,Archived
https://go.example.com/spring,https://example.com/sale,42,2025-03-01T09:30:00.000Z,2025-03-02T09:30:00.000Z,\"Spring, Sale\",false
";

/// A list of links as `LinkSchema` in <https://github.com/dubinc/dub> describes it, without the members that the import
/// does not use.
pub(super) const DUB_JSON: &str = r#"[
  {"id": "link_1", "domain": "go.example.com", "key": "the-app", "url": "https://example.com/app", "archived": false,
   "expiresAt": "2099-12-31T00:00:00.000Z", "expiredUrl": "https://example.com/over", "password": null,
   "proxy": true, "userId": "user_1", "lastClicked": "2025-03-02T09:30:00.000Z", "geo": null,
   "title": "The app", "description": null, "image": "https://example.com/app.png", "comments": "Print",
   "ios": "https://apps.apple.com/app/id123456789", "android": "example://open",
   "tags": [{"id": "tag_1", "name": "Spring", "color": "red"}], "utm_source": "print",
   "shortLink": "https://go.example.com/the-app", "clicks": 3, "createdAt": "2025-03-01T09:30:00.000Z"}
]"#;

/// The columns of Shlink's web client: `ExportableShortUrl` in <https://github.com/shlinkio/shlink-web-component>.
pub(super) const SHLINK_CSV: &str = "\
createdAt,title,shortUrl,domain,shortCode,longUrl,tags,visits
2025-03-01T10:30:00+01:00,Spring,https://go.example.com/spring,go.example.com,spring,https://example.com/sale,a|b,5
";

/// A list of short URLs as <https://api-spec.shlink.io> describes it.
pub(super) const SHLINK_JSON: &str = r#"{"shortUrls": {
  "data": [
    {"shortUrl": "https://go.example.com/spring", "shortCode": "spring", "longUrl": "https://example.com/sale",
     "dateCreated": "2025-03-01T10:30:00+01:00", "visitsSummary": {"total": 5, "nonBots": 4, "bots": 1},
     "tags": ["a", "b"], "meta": {"validSince": null, "validUntil": "2099-12-31T00:00:00+00:00", "maxVisits": 100},
     "domain": null, "title": "Spring", "crawlable": false}
  ],
  "pagination": {"currentPage": 1, "pagesCount": 3, "itemsPerPage": 1, "itemsInCurrentPage": 1, "totalItems": 3}
}}"#;

/// The keys of a link's data at <https://help.branch.io/apidocs/createdeeplinkurl>. How Branch names the columns of
/// its CSV could not be verified.
pub(super) const BRANCH: &str = "\
url,alias,$marketing_title,~channel,~campaign,~tags,$desktop_url,$fallback_url,$ios_deeplink_path,$deeplink_path,$ios_url,$android_url,$og_title,creation_date,clicks
https://example.app.link/spring,spring,Spring sale,email,sale,\"a,b\",https://example.com/sale,https://example.com/,example://sale,sale/1,https://apps.apple.com/app/id123456789,https://example.com/android,Sale,2025-03-01,9
https://example.app.link/AbC123xYz,,,,,,,https://example.com/,,,,,,,
";

/// The columns of <https://firebase.google.com/support/guides/export-dynamic-links>.
pub(super) const FIREBASE: &str = "\
Short link,Deep link (link),Android package name (apn),Android fallback link (afl),Android minimum package version code (amv),iOS bundle ID (ibi),iOS fallback link (ifl),iOS custom scheme (ius),iOS iPad fallback link (ipfl),iOS iPad bundle ID (ipbi),iOS app store ID (isi),iOS minimum version (imv),Enable forced redirect? (efr),Desktop fallback link (ofl),Social title (st),Social description (sd),Social image link (si),UTM source (utm_source),UTM medium (utm_medium),UTM campaign (utm_campaign),UTM term (utm_term),UTM content (utm_content),iTunes connect at,iTunes connect ct,iTunes connect mt,iTunes connect pt,Archived?,Link name,Creation timestamp
https://example.page.link/m9Mm,https://example.com/welcome,com.example.android,,,com.example.ios,https://example.com/ios,,,,123456789,,1,https://example.com/desktop,Welcome,Come in,https://example.com/w.png,print,,,,,,,,,false,Welcome,1740821400
https://example.page.link/invite,https://example.com/invite,,,,,,,,,,,,,,,,,,,,,,,,,true,,
";

/// As a person who keeps links in a spreadsheet might name columns.
pub(super) const ANY: &str = "\
Slug;Long URL;Title;Clicks;Created
spring;https://example.com/sale;Spring;1 204;01.03.2025
";

#[test]
fn the_exports_of_each_service_become_links() {
    let bitly = [
        json!({
            "custom_id": "spring-sale", "web_url": "https://example.com/sale?utm_source=bitly", "name": "Spring sale",
            "metadata": {
                "imported_from": "bitly", "imported_url": "https://go.example.com/spring-sale",
                "imported_other_urls": "https://bit.ly/3xYz9Ab", "imported_created_at": "2025-03-01T09:30:00.000Z",
            },
            "imported_clicks": 1204,
        }),
        json!({
            "custom_id": "4AbCdEf", "web_url": "https://example.com/about",
            "metadata": {
                "imported_from": "bitly", "imported_url": "https://bit.ly/4AbCdEf",
                "imported_created_at": "2024-12-24T00:00:00.000Z", "imported_archived": true,
            },
            "imported_clicks": 7,
        }),
    ];
    let dub_csv = [json!({
        "custom_id": "spring", "web_url": "https://example.com/sale", "tags": ["Spring", "Sale"],
        "metadata": {
            "imported_from": "dub", "imported_url": "https://go.example.com/spring",
            "imported_created_at": "2025-03-01T09:30:00.000Z",
        },
        "imported_clicks": 42,
    })];
    let dub_json = [json!({
        "custom_id": "the-app", "web_url": "https://example.com/app", "name": "Print", "tags": ["Spring"],
        "ios_store_url": "https://apps.apple.com/app/id123456789", "android_deep_link": "example://open",
        "expires_at": "2099-12-31T00:00:00.000Z", "expired_url": "https://example.com/over",
        "social_preview": {"title": "The app", "description": null, "image_url": "https://example.com/app.png"},
        "metadata": {
            "imported_from": "dub", "imported_url": "https://go.example.com/the-app", "utm_source": "print",
            "imported_created_at": "2025-03-01T09:30:00.000Z",
        },
        "imported_clicks": 3,
    })];
    let shlink = |expires: Value| {
        let mut link = json!({
            "custom_id": "spring", "web_url": "https://example.com/sale", "name": "Spring", "tags": ["a", "b"],
            "metadata": {
                "imported_from": "shlink", "imported_url": "https://go.example.com/spring",
                "imported_created_at": "2025-03-01T09:30:00.000Z",
            },
            "imported_clicks": 5,
        });
        if !expires.is_null() {
            link["expires_at"] = expires;
        }
        [link]
    };
    let branch = [
        json!({
            "custom_id": "spring", "web_url": "https://example.com/sale", "name": "Spring sale", "tags": ["a", "b"],
            "ios_deep_link": "example://sale", "ios_store_url": "https://apps.apple.com/app/id123456789",
            "social_preview": {"title": "Sale", "description": null, "image_url": null},
            "metadata": {
                "imported_from": "branch", "imported_url": "https://example.app.link/spring",
                "imported_created_at": "2025-03-01T00:00:00.000Z",
                "imported_android_fallback_url": "https://example.com/android", "imported_deep_link_path": "sale/1",
                "channel": "email", "campaign": "sale",
            },
            "imported_clicks": 9,
        }),
        json!({
            "custom_id": "AbC123xYz", "web_url": "https://example.com/",
            "metadata": {"imported_from": "branch", "imported_url": "https://example.app.link/AbC123xYz"},
        }),
    ];
    let firebase = [
        json!({
            "custom_id": "m9Mm", "web_url": "https://example.com/desktop", "name": "Welcome",
            "ios_deep_link": "https://example.com/welcome", "android_deep_link": "https://example.com/welcome",
            "android_store_url": "https://play.google.com/store/apps/details?id=com.example.android",
            "social_preview": {
                "title": "Welcome", "description": "Come in", "image_url": "https://example.com/w.png",
            },
            "metadata": {
                "imported_from": "firebase", "imported_url": "https://example.page.link/m9Mm",
                "imported_created_at": "2025-03-01T09:30:00.000Z", "utm_source": "print",
                "imported_ios_fallback_url": "https://example.com/ios",
            },
        }),
        json!({
            "custom_id": "invite", "web_url": "https://example.com/invite",
            "metadata": {
                "imported_from": "firebase", "imported_url": "https://example.page.link/invite",
                "imported_archived": true,
            },
        }),
    ];
    let any = [json!({
        "custom_id": "spring", "web_url": "https://example.com/sale", "name": "Spring",
        "metadata": {"imported_created_at": "01.03.2025"}, "imported_clicks": 1204,
    })];
    let cases: [(&str, &str, &str, &[Value]); 8] = [
        ("--from bitly", "bitly.csv", BITLY, &bitly),
        ("--from dub", "links_export.csv", DUB_CSV, &dub_csv),
        ("--from dub", "dub.json", DUB_JSON, &dub_json),
        ("--from shlink", "shlink.csv", SHLINK_CSV, &shlink(Value::Null)),
        ("--from shlink", "shlink.json", SHLINK_JSON, &shlink("2099-12-31T00:00:00.000Z".into())),
        ("--from branch", "branch.csv", BRANCH, &branch),
        ("--from firebase", "firebase.csv", FIREBASE, &firebase),
        ("--from csv", "links.csv", ANY, &any),
    ];
    for (line, name, content, links) in cases {
        assert_eq!(moved(&format!("{line} --keep-details"), name, content), links, "{line} {name}");
        let short = moved(line, name, content);
        for (short, link) in short.iter().zip(links) {
            let mut link = link.clone();
            // Only the addresses, because metadata is public.
            let kept = link["metadata"].as_object_mut().expect("an object");
            kept.retain(|key, _| ["imported_url", "imported_other_urls"].contains(&key.as_str()));
            if kept.is_empty() {
                link.as_object_mut().expect("an object").remove("metadata");
            }
            assert_eq!(*short, link, "{line} {name}");
        }
        assert_eq!(short.len(), links.len());
    }
}

#[test]
fn paths_in_the_app_get_its_scheme_and_ids_a_prefix() {
    let head = "url,alias,$deeplink_path,$ios_deeplink_path,$desktop_url\n";
    let file = format!(
        "{head}https://go.example.com/spring,spring,sale/1,,https://example.com/1\n\
         https://example.app.link/summer,summer,,other://sale/2,\n"
    );
    let link = |host: &str, id: &str, rest: Value| {
        let mut link = json!({
            "custom_id": format!("branch-{id}"), "metadata": {"imported_url": format!("https://{host}/{id}")},
        });
        link.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
        link
    };
    let spring = json!({
        "web_url": "https://example.com/1", "ios_deep_link": "myapp://sale/1", "android_deep_link": "myapp://sale/1",
        "aliases": ["spring"],
    });
    // Only a domain that can move leads here.
    let summer = json!({"ios_deep_link": "other://sale/2"});
    let expected = [link("go.example.com", "spring", spring), link("example.app.link", "summer", summer)];
    for scheme in ["myapp", "myapp://"] {
        let line = format!("--from branch --app-scheme {scheme} --id-prefix branch-");
        assert_eq!(moved(&line, "branch.csv", &file), expected, "{scheme}");
    }
    // Without the scheme, a note says how to set it.
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("branch.csv", &file);
    let ran = dl.run("import --from branch branch.csv --check");
    let note =
        "note: 1 link has a deep link path without a scheme, which is not imported; --app-scheme sets the scheme";
    assert!(ran.code == Some(0) && ran.says(note), "{ran}");
    let long = format!("--id-prefix {}", "x".repeat(62));
    for (flags, said) in [
        ("--app-scheme 'my app'", "--app-scheme <SCHEME>': use the URI scheme of the app, such as myapp"),
        ("--app-scheme ''", "--app-scheme"),
        ("--app-scheme 1app", "--app-scheme <SCHEME>': use the URI scheme"),
        ("--app-scheme myapp:", "--app-scheme <SCHEME>': use the URI scheme"),
        ("--app-scheme https", "--app-scheme <SCHEME>': use the URI scheme"),
        ("--app-scheme javascript", "--app-scheme <SCHEME>': deep links with this scheme are not allowed"),
        ("--id-prefix _", "--id-prefix <PREFIX>': use at most 61 letters, digits and hyphens, beginning with a letter"),
        ("--id-prefix=-x", "--id-prefix <PREFIX>': use at most 61"),
        ("--id-prefix ''", "--id-prefix"),
        (long.as_str(), "--id-prefix <PREFIX>': use at most 61"),
    ] {
        let ran = dl.run(&format!("import --from branch branch.csv --check {flags}"));
        assert!(ran.fails(2).contains(said), "{flags}: {ran}");
    }
    let other = dl.run("import --from bitly branch.csv --check --app-scheme myapp");
    assert!(other.fails(2).contains("--app-scheme is only for --from branch"), "{other}");
    assert!(double.requests().is_empty());
}
