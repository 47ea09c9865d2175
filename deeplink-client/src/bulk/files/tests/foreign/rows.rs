//! What a row of each kind becomes, and what is noted.

use super::*;

const NOW: i64 = 1_795_167_000_000; // 2026-11-20T09:30:00Z

fn source(options: FileOptions, provider: Provider, content: &str) -> FileSource {
    let name = if content.starts_with('[') { "x.json" } else { "x.csv" };
    open(options.provider(provider).now(Timestamp::from_millis(NOW)), name, content).expect("readable")
}

/// The rows and what is noted of them.
fn noted(options: FileOptions, provider: Provider, content: &str) -> (Vec<String>, ForeignNotes) {
    let source = source(options, provider, content);
    let rows = read(&source);
    (rows, source.notes().expect("an export"))
}

fn plain(provider: Provider, content: &str) -> (Vec<String>, ForeignNotes) {
    noted(FileOptions::new(), provider, content)
}

#[test]
fn the_number_of_a_record_is_an_id_only_if_there_is_no_other() {
    let (rows, notes) = plain(
        Provider::Csv,
        "id,url,slug,shortUrl\n1017,https://example.com/1,spring,https://go.example.com/spring\n\
         1018,https://example.com/2,,https://go.example.com/summer\n1019,https://example.com/3,,\n",
    );
    assert_eq!(
        rows,
        [
            r#"2 spring {"web_url":"https://example.com/1","metadata":{"imported_url":"https://go.example.com/spring"}}"#,
            r#"3 summer {"web_url":"https://example.com/2","metadata":{"imported_url":"https://go.example.com/summer"}}"#,
            r#"4 1019 {"web_url":"https://example.com/3"}"#,
        ]
    );
    assert_eq!(notes.ignored, ["id"]);
}

#[test]
fn a_mapped_column_takes_the_place_of_those_that_are_recognized() {
    let options = FileOptions::new().map("Code No", "custom_id").map("Where", "web_url").map("Heading", "name");
    let (rows, notes) = noted(
        options,
        Provider::Csv,
        "id,slug,Code No,url,Where,title,Heading\n1017,other,spring,https://go.example.com/spring, https://example.com ,Old,New\n\
         1018,other,,https://go.example.com/summer,https://example.com/2,Old,\n",
    );
    assert_eq!(
        rows,
        [r#"2 spring {"web_url":"https://example.com","name":"New"}"#, r#"3 - {"web_url":"https://example.com/2"}"#]
    );
    assert_eq!(notes.ignored, ["id", "slug", "url", "title"]);
    // Fields that no column of this service has: without the spaces around the value.
    let options = FileOptions::new().map("Deep", "ios_deep_link").map("Old title", "ignore");
    let (rows, notes) = noted(
        options,
        Provider::Bitly,
        "Link,Long URL,Deep,Old title\nhttps://bit.ly/abc,https://example.com, example://a ,x\n",
    );
    assert!(rows[0].contains(r#""ios_deep_link":"example://a""#), "{rows:?}");
    assert!(notes.ignored.is_empty(), "{notes:?}");
}

#[test]
fn a_value_that_another_one_replaces_is_noted() {
    let (rows, notes) = plain(
        Provider::Branch,
        "url,$desktop_url,$fallback_url,link title,title\nhttps://example.app.link/abc,https://example.com,https://example.com/x,A,B\n",
    );
    assert!(rows[0].contains(r#""web_url":"https://example.com""#) && rows[0].contains(r#""name":"A""#), "{rows:?}");
    assert_eq!(notes.ignored, ["$fallback_url", "title"]);
    let same = "url,$desktop_url,$fallback_url,link title,title\nhttps://example.app.link/abc,https://example.com,https://example.com,A,A\n";
    assert!(plain(Provider::Branch, same).1.ignored.is_empty());
}

#[test]
fn a_path_of_several_segments_is_no_id_unless_its_last_one_is_wanted() {
    let file = "Link,Long URL\nhttps://go.example.com/l/abc,https://example.com\n";
    for provider in [Provider::Bitly, Provider::Dub, Provider::Firebase] {
        let file = &file
            .replace("Link,Long URL", "Short link,Destination URL")
            .replace("Destination URL", if provider == Provider::Firebase { "Deep link" } else { "Destination URL" });
        let (rows, _) = plain(provider, file);
        assert_eq!(
            rows,
            ["2 the path has several segments; --last-segment uses the last one as the ID"],
            "{provider:?}"
        );
        let (rows, notes) = noted(FileOptions::new().last_segment(true), provider, file);
        assert!(rows[0].starts_with("2 abc {") && notes.shortened == 1, "{rows:?} {notes:?}");
        assert!(rows[0].ends_with(r#""aliases":["l/abc"]}"#), "{rows:?}");
        let (rows, notes) = noted(FileOptions::new().sanitize_ids(true), provider, file);
        assert!(rows[0].starts_with("2 l-abc {") && notes.sanitized == 1, "{rows:?} {notes:?}");
    }
    // A column with the last segment alone does not make it the path.
    let file = "slug,short link,url\nabc,https://go.example.com/l/abc,https://example.com\n";
    assert!(plain(Provider::Csv, file).0[0].contains("--last-segment"));
    let options = FileOptions::new().map("slug", "custom_id");
    assert!(noted(options, Provider::Csv, file).0[0].starts_with("2 abc {"));
    let (rows, _) = plain(Provider::Bitly, "Link,Long URL\nhttps://go.example.com/s%70ring,https://example.com\n");
    assert!(rows[0].starts_with("2 spring {"), "{rows:?}");
}

#[test]
fn other_short_links_on_the_same_host_are_aliases() {
    let (rows, notes) = plain(
        Provider::Bitly,
        "Link,Custom Link,Long URL\nhttps://bit.ly/3x,https://go.example.com/one;https://GO.example.com/two,https://example.com\n\
         https://bit.ly/4x,https://go.example.com/three,https://example.com\n\
         https://go.example.com/four,go.example.com/four/,https://example.com\n\
         https://bit.ly/5x,https://go.example.com/five;https://go.example.com/a/b/c/d;https://go.example.com/two,https://example.com\n",
    );
    assert!(rows[0].contains(r#""imported_other_urls":"https://GO.example.com/two https://bit.ly/3x""#), "{rows:?}");
    assert!(rows[1].contains(r#""imported_other_urls":"https://bit.ly/4x""#), "{rows:?}");
    assert!(!rows[2].contains("imported_other_urls"), "{rows:?}");
    let aliases: Vec<_> = rows.iter().map(|row| row.split_once("\"aliases\":").map(|(_, aliases)| aliases)).collect();
    // The last row has a path that cannot be one, and one that is an earlier row's.
    assert_eq!(aliases, [Some(r#"["two"]}"#), None, None, None]);
    assert_eq!(notes.others, 1);
    // The short link is the first on a domain that can move.
    let (rows, _) = plain(
        Provider::Bitly,
        "Link,Custom Link,Long URL\nhttps://bit.ly/6x,https://bit.ly/promo;https://go.example.com/six,https://example.com\n",
    );
    assert!(rows[0].starts_with("2 six {") && rows[0].contains("https://bit.ly/promo https://bit.ly/6x"), "{rows:?}");
    // A row that is refused takes no alias from a later one.
    let (rows, _) = plain(
        Provider::Bitly,
        "Link,Custom Link,Long URL\nhttps://bit.ly/3x,https://go.example.com/l/one;https://go.example.com/two,https://example.com\n\
         https://bit.ly/4x,https://go.example.com/three;https://go.example.com/two,https://example.com\n",
    );
    assert!(rows.last().is_some_and(|row| row.ends_with(r#""aliases":["two"]}"#)), "{rows:?}");
}

/// Metadata is public.
#[test]
fn only_addresses_are_kept_unless_details_are_wanted() {
    let file = "Short link,Destination URL,Clicks,Created at,Archived,comments,externalId,utm_source,Updated at\n\
                https://go.example.com/abc,https://example.com,7,2025-03-01,true,Mine,ext_1,print,2025-03-02\n";
    let (rows, notes) = plain(Provider::Dub, file);
    let link = r#"{"web_url":"https://example.com","metadata":{"imported_url":"https://go.example.com/abc"},"name":"Mine","imported_clicks":7}"#;
    assert_eq!(rows, [format!("2 abc {link}")]);
    assert_eq!(notes.details, ["Created at", "Archived", "externalId", "utm_source"]);
    assert!(notes.ignored.is_empty(), "{notes:?}");
    let (rows, notes) = noted(FileOptions::new().keep_details(true), Provider::Dub, file);
    for part in [
        r#""imported_from":"dub""#,
        r#""imported_created_at":"2025-03-01T00:00:00.000Z""#,
        r#""external_id":"ext_1""#,
        r#""utm_source":"print""#,
        r#""imported_archived":true"#,
    ] {
        assert!(rows[0].contains(part), "{part}: {rows:?}");
    }
    assert!(!rows[0].contains("imported_title") && notes.details.is_empty() && notes.ignored.is_empty(), "{notes:?}");
}

/// Unlike metadata, they are not public.
#[test]
fn totals_of_clicks_become_the_starting_count() {
    for (text, count) in [
        ("0", Some(0)),
        ("1,204", Some(1_204)),
        ("9007199254740991", Some(9_007_199_254_740_991_i64)),
        ("9007199254740992", None),
        ("-1", None),
        ("1.5", None),
        ("many", None),
    ] {
        let file = format!("slug,url,visits\nabc,https://example.com,\"{text}\"\n");
        let (rows, notes) = plain(Provider::Csv, &file);
        let member = count.map_or_else(String::new, |count| format!(r#","imported_clicks":{count}"#));
        assert_eq!(rows, [format!(r#"2 abc {{"web_url":"https://example.com"{member}}}"#)], "{text}");
        assert_eq!(notes.ignored.len(), usize::from(count.is_none()), "{text}: {notes:?}");
    }
    let file = "slug,url,visits,seen\nabc,https://example.com,7,8\n";
    let (rows, notes) = noted(FileOptions::new().map("seen", "imported_clicks"), Provider::Csv, file);
    assert!(rows[0].ends_with(r#""imported_clicks":8}"#) && notes.ignored == ["visits"], "{rows:?} {notes:?}");
    let (rows, _) = noted(FileOptions::new().map("visits", "meta.visits:int"), Provider::Csv, file);
    assert!(rows[0].contains(r#""metadata":{"visits":7}"#) && !rows[0].contains("imported_clicks"), "{rows:?}");
    let (rows, _) = noted(FileOptions::new().set("imported_clicks", "5"), Provider::Csv, file);
    assert!(rows[0].contains(r#""imported_clicks":5"#), "{rows:?}");
}

#[test]
fn a_link_that_does_not_lead_everybody_on_is_disabled() {
    let link = |more: &str| format!(r#"{{"shortCode": "abc", "longUrl": "https://example.com", {more}}}"#);
    let dub =
        |more: &str| format!(r#"{{"key": "abc", "domain": "go.example.com", "url": "https://example.com", {more}}}"#);
    for (provider, more, is_disabled) in [
        (Provider::Shlink, link(r#""meta": {"validSince": "2027-01-01T00:00:00+01:00"}"#), true),
        (Provider::Shlink, link(r#""meta": {"validSince": "2026-01-01T00:00:00+01:00"}"#), false),
        (Provider::Shlink, link(r#""meta": {"maxVisits": 5}, "visitsSummary": {"total": 5}"#), true),
        (Provider::Shlink, link(r#""meta": {"maxVisits": 5}, "visitsSummary": {"total": 4}"#), false),
        (Provider::Dub, dub(r#""password": "secret""#), true),
        (Provider::Dub, dub(r#""password": null, "disabledAt": null"#), false),
        (Provider::Dub, dub(r#""disabledAt": "2026-01-01T00:00:00.000Z""#), true),
    ] {
        let (rows, notes) = plain(provider, &format!("[{more}]"));
        assert_eq!(rows[0].contains(r#""enabled":false"#), is_disabled, "{more}: {rows:?}");
        assert_eq!(
            (notes.disabled.count, notes.disabled.lines.len()),
            (is_disabled.into(), is_disabled.into()),
            "{more}"
        );
        assert!(!rows[0].contains("secret"), "{rows:?}");
        assert_eq!(notes.ignored.is_empty(), !more.contains(": 4}"), "{more}: {notes:?}");
    }
    let statuses = ["Active", "archived", "Expired", "", "x", "x", "x", "x", "x"];
    let mut file = "Link,Destination URL,Status\n".to_owned();
    for (at, status) in statuses.iter().enumerate() {
        let _ = writeln!(file, "https://bit.ly/abc{at},https://example.com,{status}");
    }
    let (rows, notes) = plain(Provider::Bitly, &file);
    let disabled = rows.iter().filter(|row| row.contains(r#""enabled":false"#)).count();
    assert_eq!((disabled, notes.disabled.count, &*notes.disabled.lines), (6, 6, &[4, 6, 7, 8, 9][..]));
    let (rows, notes) = noted(FileOptions::new().set("enabled", "true"), Provider::Bitly, &file);
    assert!(rows.iter().all(|row| row.contains(r#""enabled":true"#)) && notes.disabled.count == 0, "{rows:?}");
}

#[test]
fn ends_are_read_and_only_those_too_late_are_refused() {
    for (text, end) in [
        ("2026-11-20T09:30:00.001Z", r#""expires_at":"2026-11-20T09:30:00.001Z""#),
        ("2020-01-31", r#""expires_at":"2020-01-31T00:00:00.000Z""#),
        ("never", ""),
        ("-", ""),
        ("0000-00-00 00:00:00", ""),
        ("2126-11-22", "3:40 expires_at must be within the next 100 years"),
        ("soon", "3:40 \"soon\" is not a date such as 2027-01-31 or 2027-01-31T12:00:00Z"),
    ] {
        let file = format!("Link,Long URL,Expires\n\nhttps://bit.ly/abc,https://example.com,{text}\n");
        let (rows, notes) = plain(Provider::Bitly, &file);
        assert!(
            rows[0].contains(end) && rows[0].contains("expires_at") != end.is_empty() || text == "soon",
            "{rows:?}"
        );
        assert!(text != "soon" || rows[0] == end, "{rows:?}");
        assert_eq!(notes.expired.lines, if text == "2020-01-31" { vec![3] } else { Vec::new() }, "{text}");
        assert!(notes.ignored.is_empty() || end.starts_with('3'), "{text}: {notes:?}");
    }
}

#[test]
fn web_pages_for_people_without_the_app_replace_the_store() {
    let head = "Short link,link,apn,afl,ibi,ifl,isi,ofl\n";
    let row = |cells: &str| plain(Provider::Firebase, &format!("{head}https://example.page.link/abc,{cells}\n"));
    let (rows, notes) = row(
        "https://example.com/a,com.example,https://example.com/afl,com.example.ios,https://example.com/ifl,42,https://example.com/ofl",
    );
    assert!(!rows[0].contains("store_url") && rows[0].contains(r#""web_url":"https://example.com/ofl""#), "{rows:?}");
    assert!(rows[0].contains(r#""ios_deep_link":"https://example.com/a""#), "{rows:?}");
    assert_eq!((notes.details, notes.ignored), (vec!["afl".to_owned(), "ifl".to_owned()], Vec::new()));
    let (rows, _) = row("https://example.com/a,com.example,,com.example.ios,,42,");
    assert!(rows[0].contains("?id=com.example") && rows[0].contains("/app/id42"), "{rows:?}");
    let (rows, notes) = row("https://example.com/a,,,,,,https://example.com/ofl");
    assert!(rows[0].contains(r#""web_url":"https://example.com/a""#) && !rows[0].contains("deep_link"), "{rows:?}");
    assert_eq!(notes.ignored, ["ofl"]);
}

#[test]
fn a_deep_link_without_a_scheme_is_noted() {
    let file = "url,$deeplink_path,$ios_deeplink_path,$desktop_url\nhttps://example.app.link/abc,sale/1,sale/2,https://example.com\n";
    let (rows, notes) = plain(Provider::Branch, file);
    assert!(!rows[0].contains("sale"), "{rows:?}");
    assert_eq!((notes.paths, notes.ignored.len()), (1, 0));
    let (rows, _) = noted(FileOptions::new().keep_details(true), Provider::Branch, file);
    assert!(rows[0].contains(r#""imported_deep_link_path":"sale/1""#), "{rows:?}");
}

#[test]
fn a_path_in_the_app_gets_its_scheme() {
    let head = "url,$deeplink_path,$ios_deeplink_path,$android_deeplink_path,$desktop_url\n";
    let row = |cells: &str| {
        let file = format!("{head}https://example.app.link/abc,{cells},https://example.com\n");
        let (rows, notes) = noted(FileOptions::new().app_scheme("my-app").keep_details(true), Provider::Branch, &file);
        assert!(
            notes.paths == 0 && notes.ignored.is_empty() && !rows[0].contains("_path"),
            "{cells}: {rows:?} {notes:?}"
        );
        let link: CreateLink = serde_json::from_str(&rows[0][6..]).expect("a link");
        (link.ios_deep_link.unwrap_or_default(), link.android_deep_link.unwrap_or_default())
    };
    for (cells, ios, android) in [
        ("sale/1,,", "my-app://sale/1", "my-app://sale/1"),
        ("sale/1,sale/2,", "my-app://sale/2", "my-app://sale/1"),
        ("sale/1,,open?id=a:b", "my-app://sale/1", "my-app://open?id=a:b"),
        ("other://sale/1,,sale/2", "other://sale/1", "my-app://sale/2"),
        ("https://example.com/app,,", "https://example.com/app", "https://example.com/app"),
        ("/sale/1,,", "my-app:///sale/1", "my-app:///sale/1"),
        (",,", "", ""),
    ] {
        assert_eq!(row(cells), (ios.to_owned(), android.to_owned()), "{cells}");
    }
}

#[test]
fn a_prefix_goes_before_each_id_and_the_short_link_is_an_alias() {
    let long = "x".repeat(61);
    let file = format!(
        "Short link,Destination URL\nhttps://go.example.com/spring,https://example.com/1\n\
         https://go.example.com/ab,https://example.com/2\nhttps://go.example.com/l/a_b,https://example.com/3\n\
         https://go.example.com/docs,https://example.com/4\nhttps://go.example.com/{long},https://example.com/5\n\
         https://go.example.com/_,https://example.com/6\n"
    );
    let read = |options: FileOptions| -> Vec<String> {
        let (rows, _) = noted(options.id_prefix("dub-").last_segment(true), Provider::Dub, &file);
        let word = |row: &String| row.split(' ').nth(1).unwrap_or_default().to_owned();
        let aliases =
            |row: &String| row.split_once("\"aliases\":").map_or(String::new(), |(_, list)| format!(" {list}"));
        rows.iter().map(|row| format!("{}{}", word(row), aliases(row))).collect()
    };
    let shared = [r#"dub-spring ["spring"]}"#, r#"dub-ab ["ab"]}"#];
    let long_id = format!(r#"dub-{long} ["{long}"]}}"#);
    // What has no allowed ID is reported with its prefix; a reserved word is none with a prefix, but no alias either.
    let plain = read(FileOptions::new());
    assert_eq!(plain[..2], shared);
    assert_eq!(plain[2..], [r#"dub-a_b ["l/a_b"]}"#, "dub-docs", long_id.as_str(), r#"dub-_ ["_"]}"#]);
    let sanitized = read(FileOptions::new().sanitize_ids(true));
    assert_eq!(sanitized[..4], [shared[0], shared[1], r#"dub-a-b ["l/a_b"]}"#, "dub-docs"]);
    assert_eq!(sanitized[5], r#"dub-_ ["_"]}"#, "the prefix alone is no ID");
    let generated = read(FileOptions::new().replace_ids(true));
    assert_eq!(generated[..2], shared);
    assert_eq!((&*generated[2], &generated[4]), (r#"- ["l/a_b"]}"#, &format!(r#"- ["{long}"]}}"#)));
}

#[test]
fn domains_are_no_links_and_full_pages_are_noted() {
    let link = |key: &str, url: &str| format!(r#"{{"domain": "go.example.com", "key": "{key}", "url": "{url}"}}"#);
    let (rows, notes) = plain(
        Provider::Dub,
        &format!("[{}, {}]", link("_root", "https://example.com"), link("abc", "https://example.com/1")),
    );
    assert!(rows.len() == 1 && rows[0].starts_with("1 abc "), "{rows:?}");
    let root = ("go.example.com".to_owned(), "https://example.com".to_owned());
    assert_eq!((notes.roots, notes.named_roots, notes.full_page), (1, vec![root], None));
    let (rows, notes) = plain(
        Provider::Dub,
        "Short link,Destination URL\nhttps://go.example.com,\nhttps://go.example.com/abc,https://a.example\n",
    );
    assert_eq!((rows.len(), notes.roots, notes.named_roots.len()), (1, 1, 0));
    let links: Vec<String> = (0..100).map(|at| link(&format!("abc{at}"), "https://example.com")).collect();
    assert_eq!(plain(Provider::Dub, &format!("[{}]", links.join(","))).1.full_page, Some(100));
    assert_eq!(plain(Provider::Dub, &format!("[{}]", links[1..].join(","))).1.full_page, None);
}

#[test]
fn previews_are_those_of_the_link_and_cut_to_their_limits() {
    let link = |proxy: &str| {
        let (title, text) = ("ä".repeat(121), "b ".repeat(200));
        format!(
            r#"[{{"key": "abc", "url": "https://example.com", "title": "{title}", "description": "{text}", "proxy": {proxy}}}]"#
        )
    };
    let (rows, notes) = plain(Provider::Dub, &link("true"));
    assert!(rows[0].contains(&format!(r#""title":"{}…""#, "ä".repeat(119))), "{rows:?}");
    assert_eq!(notes.cut_previews, 2);
    let (rows, notes) = plain(Provider::Dub, &link("false"));
    assert!(!rows[0].contains("social_preview") && notes.ignored.is_empty(), "{rows:?} {notes:?}");
    assert!(rows[0].contains(&format!(r#""name":"{}…""#, "ä".repeat(119))), "the page's title is its name: {rows:?}");
    let (rows, notes) = plain(Provider::Dub, &link("null"));
    assert!(rows[0].contains(r#""name":"ä"#) && notes.ignored == ["description"], "{rows:?} {notes:?}");
    let (rows, notes) =
        plain(Provider::Dub, "Short link,URL,Title,Comments\nhttps://dub.sh/abc,https://example.com,Sale,Mine\n");
    assert!(rows[0].contains(r#""name":"Mine""#) && notes.ignored == ["Title"], "{rows:?} {notes:?}");
    let (rows, notes) = plain(Provider::Csv, "slug,url,description\nabc,https://example.com,Mine\n");
    assert!(!rows[0].contains("Mine") && notes.ignored == ["description"], "{rows:?}");
}

#[test]
fn tags_of_a_list_are_not_divided() {
    let list = r#"[{"shortCode": "abc", "longUrl": "https://example.com", "tags": ["a|b", " c "]}]"#;
    assert!(plain(Provider::Shlink, list).0[0].contains(r#""tags":["a|b","c"]"#));
    let table = "shortCode,longUrl,tags\nabc,https://example.com,a|b\n";
    assert!(plain(Provider::Shlink, table).0[0].contains(r#""tags":["a","b"]"#));
}

#[test]
fn what_is_kept_never_exceeds_the_limits_of_metadata() {
    let long = "x".repeat(3_000);
    let file = format!(
        "Link,Custom Link,Long URL,Campaign\nhttps://bit.ly/abc,https://go.example.com/abc?{long},https://example.com,{}\n",
        "y".repeat(2_000)
    );
    let options = || FileOptions::new().keep_details(true);
    let (rows, notes) = noted(options(), Provider::Bitly, &file);
    assert!(!rows[0].contains("imported_url") && rows[0].contains("\"campaign\":\"yy"), "{rows:?}");
    assert!(rows[0].contains("imported_other_urls") && notes.crowded == 1, "{notes:?}");
    // What the caller sets stays, and is not replaced.
    let (rows, notes) =
        noted(options().set("meta.mine", "z".repeat(4_060)).set("meta.imported_from", "me"), Provider::Bitly, &file);
    assert!(rows[0].contains(r#""imported_from":"me""#) && !rows[0].contains("bit.ly"), "{rows:?}");
    assert_eq!(notes.crowded, 1);
}

#[test]
fn at_most_fifty_ignored_columns_are_named() {
    let names: Vec<String> = (0..60).map(|at| format!("x{at}")).collect();
    let file = format!("slug,url,{},none\nabc,https://example.com{},0\n", names.join(","), ",y".repeat(60));
    let (_, notes) = plain(Provider::Csv, &file);
    assert_eq!((notes.ignored.len(), notes.has_more), (50, true));
}

/// The same links with other counts, in another order, get the same IDs.
#[test]
fn generated_ids_follow_from_the_short_link() {
    use crate::bulk::template::keyed_id;
    let keys = |file: &str| {
        let source = source(FileOptions::new().replace_ids(true), Provider::Csv, file);
        let mut keys: Vec<_> = source
            .rows()
            .expect("readable")
            .map(|row| match row {
                Ok(SourceRow::Row(row)) => (row.id, row.key.map(|key| keyed_id("", &key))),
                other => panic!("{other:?}"),
            })
            .collect();
        keys.sort();
        keys
    };
    let first = keys(
        "Short URL,URL,Clicks\nhttps://go.example.com/a_b,https://example.com/1,1\nhttps://go.example.com/abc,https://example.com/2,2\n\
         https://go.example.com/c/d,https://example.com/3,3\n",
    );
    let later = keys(
        "Clicks,Short URL,URL\n9,go.example.com/c/d,https://example.com/3\n8,go.example.com/abc/,https://example.com/4\n\
         7,http://GO.example.com/a_b,https://example.com/1\n",
    );
    assert_eq!(first, later);
    assert_eq!(first.iter().filter(|(id, key)| id.is_none() && key.is_some()).count(), 2);
}
