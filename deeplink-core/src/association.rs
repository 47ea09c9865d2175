//! The association files that let links open apps: which apps, on which host, in the words of Apple and Google.

use serde::{Deserialize, Serialize};

/// `/.well-known/apple-app-site-association`: the iOS apps that open a host's links. It contains the keys of
/// both formats: the one for iOS 12 and earlier, and the one for iOS 13 and later (Apple, "Supporting associated domains").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppleAssociation {
    /// Apps that open links.
    pub applinks: AppLinks,
    /// Apps that may use passwords saved for the host.
    pub webcredentials: WebCredentials,
}

/// Apps that open links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppLinks {
    /// Always empty; iOS before version 13 requires it.
    pub apps: Vec<String>,
    /// One entry for each app, oldest first.
    pub details: Vec<AppLinkDetail>,
}

/// One app and the paths that it opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppLinkDetail {
    /// `{team_id}.{bundle_id}`, for iOS 13 and later.
    #[serde(rename = "appIDs")]
    pub app_ids: Vec<String>,
    /// Paths that open the app on iOS 13 and later: all paths.
    pub components: Vec<Component>,
    /// `{team_id}.{bundle_id}`, for iOS 12 and earlier.
    #[serde(rename = "appID")]
    pub app_id: String,
    /// Paths that open the app on iOS 12 and earlier: all paths.
    pub paths: Vec<String>,
}

/// A pattern that a URL's path is matched against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Component {
    /// `/*`: every path.
    #[serde(rename = "/")]
    pub path: String,
}

/// Apps that may use passwords saved for the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebCredentials {
    /// `{team_id}.{bundle_id}` of each app.
    pub apps: Vec<String>,
}

impl AppleAssociation {
    /// The file for these apps, each a `(team_id, bundle_id)`, oldest first.
    pub fn of<'a>(apps: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let ids: Vec<String> = apps.into_iter().map(|(team, bundle)| format!("{team}.{bundle}")).collect();
        let details = ids.iter().map(|id| AppLinkDetail {
            app_ids: vec![id.clone()],
            components: vec![Component { path: "/*".into() }],
            app_id: id.clone(),
            paths: vec!["*".into()],
        });
        Self {
            applinks: AppLinks { apps: Vec::new(), details: details.collect() },
            webcredentials: WebCredentials { apps: ids },
        }
    }
}

/// One statement of `/.well-known/assetlinks.json`: this app may open every link of the host (Google, "Digital Asset
/// Links").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssetStatement {
    /// `delegate_permission/common.handle_all_urls`.
    pub relation: Vec<String>,
    /// The app.
    pub target: AssetTarget,
}

/// The app that a statement refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssetTarget {
    /// `android_app`.
    pub namespace: String,
    /// The package name.
    pub package_name: String,
    /// SHA-256 of each signing certificate, uppercase hex pairs separated by `:`.
    pub sha256_cert_fingerprints: Vec<String>,
}

impl AssetStatement {
    /// What Android asks for before it opens links in an app.
    pub const HANDLE_ALL_URLS: &'static str = "delegate_permission/common.handle_all_urls";

    /// The statement about an app.
    pub fn new(package_name: impl Into<String>, fingerprints: Vec<String>) -> Self {
        Self {
            relation: vec![Self::HANDLE_ALL_URLS.into()],
            target: AssetTarget {
                namespace: "android_app".into(),
                package_name: package_name.into(),
                sha256_cert_fingerprints: fingerprints,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINT: &str =
        "14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";

    #[test]
    fn association_files_have_the_documented_bytes() {
        let apple = AppleAssociation::of([("ABCDE12345", "com.example.app")]);
        assert_eq!(
            serde_json::to_string(&apple).expect("JSON"),
            r#"{"applinks":{"apps":[],"details":[{"appIDs":["ABCDE12345.com.example.app"],"components":[{"/":"/*"}],"appID":"ABCDE12345.com.example.app","paths":["*"]}]},"webcredentials":{"apps":["ABCDE12345.com.example.app"]}}"#
        );
        let google = [AssetStatement::new("com.example.app", vec![PRINT.into()])];
        assert_eq!(
            serde_json::to_string(&google).expect("JSON"),
            format!(
                r#"[{{"relation":["delegate_permission/common.handle_all_urls"],"target":{{"namespace":"android_app","package_name":"com.example.app","sha256_cert_fingerprints":["{PRINT}"]}}}}]"#
            )
        );
    }
}
