//! Why there is no certificate, and whom that concerns: one name waits by itself, and only what every name would meet
//! stops the node.

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
    /// The authority cannot be reached, or refuses the account: asking for other names now would be as vain.
    #[error("{}", Causes(.0))]
    Authority(Error),
    /// The account is not known there (any more).
    #[error("{}", Causes(.0))]
    Account(Error),
    #[error("the account's key cannot be opened: {0}")]
    Sealed(#[from] DecryptError),
    #[error("the account is not what was stored")]
    Stored,
    #[error(transparent)]
    Database(#[from] DbError),
    /// An order failed for a reason that may be the authority's: a name's own rate limit looks like everybody's, and a
    /// broken line like a broken network.
    #[error("{}", Causes(.0))]
    Doubtful(Error),
    /// It concerns the one name.
    #[error("{}", Causes(.0))]
    Refused(Error),
    #[error("the name was not proved to lead here: {0}")]
    Unproved(String),
    #[error("the authority offers no http-01 challenge")]
    NoChallenge,
    #[error("the authority took too long")]
    TooLate,
    #[error("what was issued cannot be used: {0}")]
    Unfit(#[from] Unfit),
}

impl WriteError for OrderError {
    fn database(&self) -> Option<&DbError> {
        if let Self::Database(error) = self { Some(error) } else { None }
    }
}

/// Why what an authority sent is not the certificate that was ordered.
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
    #[error("its time is over before it begins")]
    NoTime,
}

/// An error with what caused it: the outermost one alone often says only that a request failed.
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
    /// The problem in one line. An authority repeats what it was answered, and so what a tenant's server made up.
    pub(super) fn in_one_line(&self) -> String {
        let text = self.to_string();
        let mut line: String =
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_PROBLEM).collect();
        if line.len() < text.len() {
            line.push('…');
        }
        line
    }

    /// What the authority, or the account there, cannot be had for.
    pub(super) fn of_account(error: Error) -> Self {
        if kind(&error) == "accountDoesNotExist" { Self::Account(error) } else { Self::Authority(error) }
    }

    /// What ended an order that was begun. Names of one registered domain share rate limits and no two tenants share
    /// luck, so only what is said of the account is everybody's at once (RFC 8555, section 6.7).
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
            // What is not listed concerns the name.
            (Error::Api(_), _) => Self::Refused(error),
            _ => Self::Doubtful(error),
        }
    }

    /// Whom it concerns.
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

/// Whom a error concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The name that was ordered; the authority does its work.
    Name,
    /// The name, and perhaps every other: what the next names meet will tell.
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
        assert!(said.starts_with("the name was not proved to lead here: Invalid response: \" [2J wellxxx"), "{said}");
        assert!(said.ends_with("x…") && said.chars().count() == LONGEST_PROBLEM + 1);
        assert_eq!(OrderError::NoChallenge.in_one_line(), OrderError::NoChallenge.to_string());
    }

    /// What one name's order meets stops no other, but for what is said of the account.
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
