//! Why there is no certificate, and which names that concerns: usually one name waits, and only a failure that every
//! name would meet stops the node.

use std::error::Error as StdError;
use std::fmt;

use instant_acme::Error;

use crate::certificates::Unusable;
use crate::db::{DbError, WriteError};
use crate::vault::DecryptError;

/// Characters of a problem that are kept.
const LONGEST_PROBLEM: usize = 500;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    /// The authority cannot be reached, or refuses the account: orders for other names would fail too.
    #[error("{}", Causes(.0))]
    Authority(Error),
    /// The authority does not know the account, or no longer does.
    #[error("{}", Causes(.0))]
    Account(Error),
    #[error("the account's key cannot be decrypted: {0}")]
    Sealed(#[from] DecryptError),
    #[error("the stored ACME account is invalid")]
    Stored,
    #[error(transparent)]
    Database(#[from] DbError),
    /// An order failed for a reason that may be the authority's: a name's own rate limit looks like one for every name,
    /// and a broken connection like a broken network.
    #[error("{}", Causes(.0))]
    Doubtful(Error),
    /// It concerns only the ordered name.
    #[error("{}", Causes(.0))]
    Refused(Error),
    #[error("the ACME server could not verify the name: {0}")]
    Unproved(String),
    #[error("the ACME server offers no http-01 challenge")]
    NoChallenge,
    #[error("the ACME server took too long")]
    TooLate,
    #[error("the issued certificate cannot be used: {0}")]
    Unfit(#[from] Unfit),
}

impl WriteError for OrderError {
    fn database(&self) -> Option<&DbError> {
        if let Self::Database(error) = self { Some(error) } else { None }
    }
}

/// Why the authority's response is not the ordered certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error(transparent)]
    Unusable(#[from] Unusable),
    #[error("there is no certificate in it")]
    Empty,
    #[error("it cannot be read")]
    Unreadable,
    #[error("it is for another name")]
    OtherName,
    #[error("it expires before it becomes valid")]
    NoTime,
}

/// An error with its causes: the outermost one alone often says only that a request failed.
struct Causes<'e>(&'e dyn StdError);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = error.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
            }
            said = text;
            next = error.source();
        }
        Ok(())
    }
}

impl OrderError {
    /// The problem in one line. An authority repeats what it received, and so anything that a tenant's server sent.
    pub(super) fn in_one_line(&self) -> String {
        let text = self.to_string();
        let mut line: String =
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_PROBLEM).collect();
        if line.len() < text.len() {
            line.push('…');
        }
        line
    }

    /// Why the authority, or the account there, is unavailable.
    pub(super) fn of_account(error: Error) -> Self {
        if kind(&error) == "accountDoesNotExist" { Self::Account(error) } else { Self::Authority(error) }
    }

    /// Why an order ended that had begun. Names of one registered domain share rate limits, but tenants do not, so only
    /// an error about the account concerns every name at once (RFC 8555, section 6.7).
    pub(super) fn of_order(error: Error) -> Self {
        match (&error, kind(&error)) {
            (Error::Timeout(_), _) => Self::TooLate,
            (Error::Api(_), "accountDoesNotExist") => Self::Account(error),
            (
                Error::Api(_),
                "externalAccountRequired" | "invalidContact" | "unsupportedContact" | "userActionRequired",
            ) => Self::Authority(error),
            (Error::Api(_), "rateLimited" | "serverInternal" | "badNonce" | "badSignatureAlgorithm") => {
                Self::Doubtful(error)
            }
            // Other problems concern the name.
            (Error::Api(_), _) => Self::Refused(error),
            _ => Self::Doubtful(error),
        }
    }

    /// Which names it concerns.
    pub(super) fn scope(&self) -> Scope {
        match self {
            Self::Authority(_) | Self::Account(_) | Self::Sealed(_) | Self::Stored | Self::Database(_) => {
                Scope::AllNames
            }
            Self::Doubtful(_) => Scope::NameOrAll,
            Self::Refused(_) | Self::Unproved(_) | Self::NoChallenge | Self::TooLate | Self::Unfit(_) => Scope::Name,
        }
    }
}

/// Which names an error concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The ordered name; the authority works.
    Name,
    /// The ordered name, and perhaps every other: the next orders will tell.
    NameOrAll,
    /// Every name; this one is not to blame.
    AllNames,
}

/// The last part of a problem's type, or an empty text.
fn kind(error: &Error) -> &str {
    match error {
        Error::Api(problem) => problem.r#type.as_deref().and_then(|kind| kind.rsplit(':').next()).unwrap_or(""),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str) -> Error {
        let text = format!(r#"{{"type":"urn:ietf:params:acme:error:{kind}","detail":"because"}}"#);
        Error::Api(serde_json::from_str(&text).expect("a problem"))
    }

    #[test]
    fn a_problem_is_one_short_line() {
        let long = format!("Invalid response: \"\u{1b}[2J\nwell{}\"", "x".repeat(5_000));
        let said = OrderError::Unproved(long).in_one_line();
        assert!(
            said.starts_with("the ACME server could not verify the name: Invalid response: \" [2J wellxxx"),
            "{said}"
        );
        assert!(said.ends_with("x…") && said.chars().count() == LONGEST_PROBLEM + 1);
        assert_eq!(OrderError::NoChallenge.in_one_line(), OrderError::NoChallenge.to_string());
    }

    /// A failed order of one name stops no other, except for errors about the account.
    #[test]
    fn an_order_that_was_begun_fails_for_its_name() {
        for kind in ["rateLimited", "serverInternal", "badNonce"] {
            assert_eq!(OrderError::of_order(problem(kind)).scope(), Scope::NameOrAll, "{kind}");
        }
        for kind in ["dns", "connection", "unauthorized", "caa", "rejectedIdentifier", "malformed", "somethingNew"] {
            assert_eq!(OrderError::of_order(problem(kind)).scope(), Scope::Name, "{kind}");
        }
        for kind in ["accountDoesNotExist", "userActionRequired", "externalAccountRequired"] {
            assert_eq!(OrderError::of_order(problem(kind)).scope(), Scope::AllNames, "{kind}");
        }
        assert_eq!(OrderError::of_order(Error::Str("no answer")).scope(), Scope::NameOrAll);
        assert_eq!(OrderError::of_order(Error::Timeout(None)).scope(), Scope::Name);
        assert!(matches!(OrderError::of_order(problem("accountDoesNotExist")), OrderError::Account(_)));
        let said = OrderError::of_order(problem("caa")).to_string();
        assert!(said.contains("because"), "{said}");
    }

    #[test]
    fn without_an_account_there_is_no_certificate_for_anybody() {
        for error in [problem("rateLimited"), problem("malformed"), Error::Str("no answer"), Error::Timeout(None)] {
            assert_eq!(OrderError::of_account(error).scope(), Scope::AllNames);
        }
        assert!(matches!(OrderError::of_account(problem("accountDoesNotExist")), OrderError::Account(_)));
    }
}
