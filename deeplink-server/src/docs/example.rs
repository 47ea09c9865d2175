//! Shell commands that call operations, with the examples of the OpenAPI document.

use deeplink_core::routes::Credential;
use serde_json::Value;

use super::schema::Schemas;

/// A command that calls the operation; `None` for those that no program calls.
pub(super) fn command<'a>(
    schemas: Schemas<'a>,
    (method, path): (&str, &str),
    parameters: &[&'a Value],
    body: Option<(&str, &'a Value)>,
    credential: Credential,
) -> Option<String> {
    if !credential.is_for_programs() {
        return None;
    }
    let (mut url, mut query) = (path.to_owned(), Vec::new());
    for parameter in parameters {
        let name = parameter["name"].as_str()?;
        let given = || parameter["example"].as_str().or_else(|| schemas.example(&parameter["schema"])?.as_str());
        match parameter["in"].as_str()? {
            "path" => url = url.replace(&format!("{{{name}}}"), given()?),
            "query" if parameter["required"] == true => query.push(format!("{name}={}", given()?)),
            _ => {}
        }
    }
    if !query.is_empty() {
        url = format!("{url}?{}", query.join("&"));
    }
    let how = if method == "GET" { String::new() } else { format!("-X {method} ") };
    let mut lines = vec![format!("curl {how}\"$DL_BASE_URL{url}\"")];
    lines.extend(match credential {
        Credential::SecretKey | Credential::LinkWriter => Some("-H \"Authorization: Bearer $DL_API_KEY\"".to_owned()),
        Credential::SdkKey | Credential::PublishableKey => {
            Some("-H \"Authorization: Bearer $DL_PUBLISHABLE_KEY\"".to_owned())
        }
        Credential::Session => Some("-H \"Cookie: session_token=$SESSION_TOKEN\"".to_owned()),
        _ => None,
    });
    if let Some((media_type, schema)) = body {
        lines.extend(self::body(schemas, media_type, schema)?);
    }
    Some(lines.join(" \\\n  "))
}

/// The options that send a body.
fn body(schemas: Schemas<'_>, media_type: &str, schema: &Value) -> Option<Vec<String>> {
    let kind = format!("-H 'Content-Type: {media_type}'");
    match media_type {
        "application/json" => {
            let body = schemas.example(schema)?.to_string();
            Some(vec![kind, format!("-d '{}'", body.replace('\'', "'\\''"))])
        }
        // The type that curl sends if no other is given.
        "application/x-www-form-urlencoded" => {
            let fields = schemas.example(schema)?.as_object()?.iter();
            fields.map(|(name, value)| Some(format!("--data-urlencode '{name}={}'", value.as_str()?))).collect()
        }
        _ => Some(vec![kind, "--data-binary @FILE".to_owned()]),
    }
}
