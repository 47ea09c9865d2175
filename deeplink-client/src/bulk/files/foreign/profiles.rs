//! What the columns of each service's export mean.
//!
//! The names are those of the services' own exports and documentation, which `docs/moving-in.md` lists. Case, spaces
//! and punctuation are ignored when they are compared, and a name in parentheses counts too: `Deep link (link)` is
//! `deeplink` or `link`. Members that every object of an API has and that say nothing about where its link leads are
//! ignored without a note.

use super::super::fields::Field;
use super::Role;
use Role as R;

/// What is ignored without a note.
const DROPPED: Role = R::Own(Field::Ignored);

/// How the export of one service is read.
#[derive(Debug)]
pub(super) struct Profile {
    /// The service, for messages.
    pub(super) label: &'static str,
    /// Its own domains, on which its users have short links, directly or on subdomains.
    pub(super) hosts: &'static [&'static str],
    /// The value of `imported_from`.
    pub(super) origin: Option<&'static str>,
    /// The keys that lead to the list of links in the service's JSON, if that can be read.
    pub(super) json: Option<&'static [&'static str]>,
    /// What separates tags in a cell.
    pub(super) separators: &'static [char],
    /// Titles and images are the link's own only if the row says so.
    pub(super) needs_proxy: bool,
    /// A row without a path is about the domain itself.
    pub(super) has_roots: bool,
    /// How many links the largest page of its API has.
    pub(super) page: Option<u64>,
    /// Names for messages: of the columns with the short link or its ID, and of those with the destination.
    pub(super) id_columns: &'static str,
    pub(super) destination_columns: &'static str,
    /// Names, separated by spaces, and their role. A name that ends with a dot means all members of that object.
    columns: &'static [(&'static str, Role)],
}

impl Profile {
    /// Whether a host, in lower case, is one of the service's own.
    pub(super) fn owns(&self, host: &str) -> bool {
        let is_in =
            |domain: &&str| host.strip_suffix(*domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        self.hosts.iter().any(is_in)
    }

    /// The role of a column, if the service has one of that name.
    pub(super) fn role(&self, name: &str) -> Option<Role> {
        candidates(name).iter().find_map(|name| {
            let known = |(names, _): &&(&str, Role)| names.split(' ').any(|known| is_named(name, known));
            self.columns.iter().find(known).map(|(_, role)| role.clone())
        })
    }
}

fn is_named(name: &str, known: &str) -> bool {
    name == known || known.ends_with('.') && name.starts_with(known)
}

/// The forms of a name that are compared: the whole, what precedes parentheses, and what is in them.
fn candidates(name: &str) -> Vec<String> {
    let key = |part: &str| -> String {
        let key: String =
            part.chars().filter(|c| c.is_alphanumeric() || *c == '.').flat_map(char::to_lowercase).collect();
        key.strip_prefix("data.").map_or(key.clone(), str::to_owned)
    };
    let mut candidates = vec![key(name)];
    if let Some((before, rest)) = name.split_once('(') {
        candidates.push(key(before));
        candidates.push(key(rest.split(')').next().unwrap_or_default()));
    }
    candidates
}

pub(super) static BITLY: Profile = Profile {
    label: "Bitly",
    hosts: &["bit.ly", "j.mp", "bitly.com"],
    origin: Some("bitly"),
    json: Some(&["links"]),
    separators: &[',', '|', ';'],
    needs_proxy: false,
    has_roots: false,
    page: None,
    id_columns: "\"Link\", \"Bitlink\" or \"Custom Link\"",
    destination_columns: "\"Destination URL\" or \"Long URL\"",
    columns: &[
        ("link bitlink bitlinkurl shortlink shorturl", R::ShortLink),
        ("customlink customlinks custombitlink custombitlinks customurl", R::CustomLinks),
        ("backhalf custombackhalf", R::Id),
        ("destinationurl longurl destination originalurl url", R::Web),
        ("title linktitle", R::Name),
        ("tags tag", R::Tags),
        ("clicks totalclicks engagements totalengagements clicksalltime", R::Clicks),
        ("createdat created datecreated createddate creationdate", R::Created),
        ("archived", R::Archived),
        ("status linkstatus", R::Status),
        ("expiresat expirationat expirationdate expiration expires", R::Expires),
        ("campaign campaigns", R::Meta("campaign")),
        ("channel channels", R::Meta("channel")),
        ("id createdby clientid references. campaignids launchpadids", DROPPED),
    ],
};

pub(super) static DUB: Profile = Profile {
    label: "Dub",
    hosts: &["dub.sh", "dub.link", "chatg.pt", "spti.fi", "git.new", "amzn.id", "fig.page", "loooooooo.ng"],
    origin: Some("dub"),
    json: Some(&[]),
    separators: &[','],
    needs_proxy: true,
    has_roots: true,
    page: Some(100),
    id_columns: "\"Short link\" or \"Key\"",
    destination_columns: "\"Destination URL\"",
    columns: &[
        ("shortlink link", R::ShortLink),
        ("key slug", R::Id),
        ("domain", R::Domain),
        ("destinationurl url", R::Web),
        ("comments", R::Name),
        ("title", R::Title),
        ("description", R::Description),
        ("image", R::Image),
        ("tags tagnames", R::Tags),
        ("clicks", R::Clicks),
        ("createdat createddate created", R::Created),
        ("archived", R::Archived),
        ("proxy", R::Proxy),
        ("password", R::Password),
        ("disabledat", R::DisabledAt),
        ("expiresat", R::Expires),
        ("expiredurl", R::ExpiredUrl),
        ("ios iostargeting", R::IosTarget),
        ("android androidtargeting", R::AndroidTarget),
        ("externalid", R::Meta("external_id")),
        ("utmsource", R::Meta("utm_source")),
        ("utmmedium", R::Meta("utm_medium")),
        ("utmcampaign", R::Meta("utm_campaign")),
        ("utmterm", R::Meta("utm_term")),
        ("utmcontent", R::Meta("utm_content")),
        ("id userid workspaceid projectid tagid qrcode user.", DROPPED),
        ("updatedat lastclicked leads conversions sales saleamount publicstats trackconversion doindex", DROPPED),
    ],
};

pub(super) static SHLINK: Profile = Profile {
    label: "Shlink",
    hosts: &[],
    origin: Some("shlink"),
    json: Some(&["shortUrls", "data"]),
    separators: &[',', '|'],
    needs_proxy: false,
    has_roots: false,
    page: None,
    id_columns: "\"shortCode\" or \"shortUrl\"",
    destination_columns: "\"longUrl\"",
    columns: &[
        ("shorturl", R::ShortLink),
        ("shortcode", R::Id),
        ("domain", R::Domain),
        ("longurl", R::Web),
        ("title", R::Name),
        ("tags", R::Tags),
        ("visits visitssummary.total visitscount", R::Clicks),
        ("visitssummary.nonbots visitssummary.bots crawlable forwardquery", DROPPED),
        ("createdat datecreated", R::Created),
        ("validuntil meta.validuntil", R::Expires),
        ("validsince meta.validsince", R::Begins),
        ("maxvisits meta.maxvisits", R::MaxClicks),
        ("devicelongurls.ios", R::IosTarget),
        ("devicelongurls.android", R::AndroidTarget),
    ],
};

pub(super) static BRANCH: Profile = Profile {
    label: "Branch",
    hosts: &["app.link", "test-app.link", "bnc.lt"],
    origin: Some("branch"),
    json: None,
    separators: &[',', '|', ';'],
    needs_proxy: false,
    has_roots: false,
    page: None,
    id_columns: "\"alias\" or \"url\"",
    destination_columns: "\"$desktop_url\", \"$fallback_url\" or \"$deeplink_path\"",
    columns: &[
        ("url link linkurl shorturl shortlink", R::ShortLink),
        ("alias linkalias", R::Id),
        ("desktopurl weburl webredirect destinationurl", R::Web),
        ("fallbackurl defaulturl", R::WebFallback),
        ("deeplinkpath deeplink deeplinkurl", R::AppPath),
        ("iosdeeplinkpath", R::IosPath),
        ("androiddeeplinkpath", R::AndroidPath),
        ("iosurl", R::IosFallback),
        ("androidurl", R::AndroidFallback),
        ("marketingtitle linktitle title name linkname", R::Name),
        ("ogtitle", R::Title),
        ("ogdescription", R::Description),
        ("ogimageurl", R::Image),
        ("tags tag", R::Tags),
        ("clicks totalclicks", R::Clicks),
        ("createdat created datecreated createddate creationdate creationtime", R::Created),
        ("archived", R::Archived),
        ("channel", R::Meta("channel")),
        ("feature", R::Meta("feature")),
        ("campaign", R::Meta("campaign")),
        ("stage", R::Meta("stage")),
    ],
};

pub(super) static FIREBASE: Profile = Profile {
    label: "Firebase Dynamic Links",
    hosts: &["page.link", "app.goo.gl"],
    origin: Some("firebase"),
    json: None,
    separators: &[','],
    needs_proxy: false,
    has_roots: false,
    page: None,
    id_columns: "\"Short link\"",
    destination_columns: "\"Deep link (link)\" or \"Desktop fallback link (ofl)\"",
    columns: &[
        ("shortlink shortdynamiclink", R::ShortLink),
        ("deeplink link", R::AppLink),
        ("desktopfallbacklink ofl", R::Desktop),
        ("androidpackagename apn", R::AndroidApp),
        ("androidfallbacklink afl", R::AndroidFallback),
        ("iosbundleid ibi", R::IosBundle),
        ("iosfallbacklink ifl", R::IosFallback),
        ("iosappstoreid isi", R::IosApp),
        ("linkname name", R::Name),
        ("socialtitle st", R::Title),
        ("socialdescription sd", R::Description),
        ("socialimagelink si", R::Image),
        ("utmsource", R::Meta("utm_source")),
        ("utmmedium", R::Meta("utm_medium")),
        ("utmcampaign", R::Meta("utm_campaign")),
        ("utmterm", R::Meta("utm_term")),
        ("utmcontent", R::Meta("utm_content")),
        ("archived", R::Archived),
        ("creationtimestamp createdtimestamp createdat created", R::Created),
    ],
};

/// The names that exports of further services have in common.
pub(super) static ANY: Profile = Profile {
    label: "CSV",
    hosts: &[],
    origin: None,
    json: None,
    separators: &[',', '|', ';'],
    needs_proxy: false,
    has_roots: false,
    page: None,
    id_columns: "\"Short URL\", \"Slug\", \"Alias\" or similar",
    destination_columns: "\"Long URL\", \"Destination\" or similar",
    columns: &[
        ("shorturl shortlink link", R::ShortLink),
        ("customid slug backhalf alias keyword shortcode slashtag", R::Id),
        ("key path code id", R::WeakId),
        ("domain", R::Domain),
        ("longurl destinationurl destination originalurl targeturl target redirecturl weburl", R::Web),
        ("url", R::WebFallback),
        ("iosurl ios iostargeting", R::IosTarget),
        ("androidurl android androidtargeting", R::AndroidTarget),
        ("name title linktitle", R::Name),
        ("ogtitle socialtitle", R::Title),
        ("ogdescription socialdescription", R::Description),
        ("ogimage ogimageurl socialimage image", R::Image),
        ("tags tag labels", R::Tags),
        ("clicks totalclicks visits hits engagements clickcount", R::Clicks),
        ("createdat created datecreated createddate creationdate timestamp", R::Created),
        ("archived", R::Archived),
        ("expiresat expires expirationdate expiration expirydate validuntil", R::Expires),
        ("expiredurl", R::ExpiredUrl),
        ("campaign", R::Meta("campaign")),
        ("channel", R::Meta("channel")),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A name with two roles would depend on the order of the table.
    #[test]
    fn every_name_has_one_role_and_is_in_the_compared_form() {
        for profile in [&BITLY, &DUB, &SHLINK, &BRANCH, &FIREBASE, &ANY] {
            let names: Vec<&str> = profile.columns.iter().flat_map(|(names, _)| names.split(' ')).collect();
            for (at, name) in names.iter().enumerate() {
                assert!(!names[..at].contains(name), "{}: {name}", profile.label);
                assert_eq!(candidates(name), [*name], "{}", profile.label);
            }
        }
    }

    #[test]
    fn names_are_compared_without_case_and_punctuation() {
        for (profile, name, role) in [
            (&BITLY, "Custom Link", Some(R::CustomLinks)),
            (&BITLY, "long_url", Some(R::Web)),
            (&DUB, "Short link", Some(R::ShortLink)),
            (&DUB, "createdAt", Some(R::Created)),
            (&SHLINK, "visitsSummary.total", Some(R::Clicks)),
            (&SHLINK, "visitsSummary.bots", Some(DROPPED)),
            (&SHLINK, "visitsSummary.other", None),
            (&DUB, "user.name", Some(DROPPED)),
            (&BRANCH, "~campaign", Some(R::Meta("campaign"))),
            (&BRANCH, "data.$ios_deeplink_path", Some(R::IosPath)),
            (&FIREBASE, "Deep link (link)", Some(R::AppLink)),
            (&FIREBASE, "Archived?", Some(R::Archived)),
            (&FIREBASE, "apn", Some(R::AndroidApp)),
            (&ANY, "Price", None),
            (&ANY, "ID", Some(R::WeakId)),
        ] {
            assert_eq!(profile.role(name), role, "{}: {name}", profile.label);
        }
    }
}
