//! Domains, and the apps that their association files name.

/// SHA-256 of a signing certificate.
pub const FINGERPRINT: &str =
    "14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";

/// An app as lists show it.
pub fn app(platform: &str) -> serde_json::Value {
    let ios = platform == "ios";
    let of = |there: bool, value: serde_json::Value| if there { value } else { serde_json::Value::Null };
    serde_json::json!({
        "id": if ios { "app_0123456789abcdef01234567" } else { "app_0123456789abcdef0123456a" },
        "platform": platform, "app_name": "Shop", "icon_url": null, "theme_color": "#0a7cff",
        "bundle_id": of(ios, "com.example.app".into()), "team_id": of(ios, "ABCDE12345".into()),
        "package_name": of(!ios, "com.example.app".into()),
        "sha256_fingerprints": of(!ios, serde_json::json!([FINGERPRINT])),
        "created_at": "2026-11-20T09:30:00.000Z",
    })
}

/// An association file for Apple.
pub fn association() -> serde_json::Value {
    serde_json::json!({
        "applinks": {"apps": [], "details": [{
            "appIDs": ["ABCDE12345.com.example.app"], "components": [{"/": "/*"}],
            "appID": "ABCDE12345.com.example.app", "paths": ["*"],
        }]},
        "webcredentials": {"apps": ["ABCDE12345.com.example.app"]},
    })
}

/// An association file for Google.
pub fn asset_links() -> serde_json::Value {
    serde_json::json!([{
        "relation": ["delegate_permission/common.handle_all_urls"],
        "target": {
            "namespace": "android_app", "package_name": "com.example.app", "sha256_cert_fingerprints": [FINGERPRINT],
        },
    }])
}

/// The token that proves a claim.
pub const TOKEN: &str = "3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846";

/// A domain as lists and claims show it.
pub fn domain(verified: bool) -> serde_json::Value {
    serde_json::json!({
        "domain": "go.example.com", "role": "primary", "verified": verified, "created_at": "2026-11-20T09:30:00.000Z",
        "verification_token": TOKEN, "txt_record": "_deeplink-verify.go.example.com", "cname_target": "links.example.com",
        "root_url": if verified { Some("https://www.example.com/") } else { None }, "not_found_url": null,
        "long_links": false, "allowed_hosts": [],
    })
}

/// The result of a DNS lookup.
pub fn verification(reason: Option<&str>) -> serde_json::Value {
    let found = if reason.is_some() { serde_json::json!([]) } else { serde_json::json!([TOKEN]) };
    serde_json::json!({
        "domain": "go.example.com", "verified": reason.is_none(), "checked_at": "2026-11-20T09:30:00.000Z",
        "txt_found": found, "reason": reason,
    })
}
