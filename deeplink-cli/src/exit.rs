//! One documented exit code for each kind of outcome. The table of `dl help exit-codes` is generated from this list.

macro_rules! exits {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $word:literal, $meaning:literal;)+) => {
        /// How a run of `dl` ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Exit { $($(#[$doc])* $name,)+ }

        impl Exit {
            /// Every code, in the order of the table.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The number the shell sees.
            pub(crate) const fn code(self) -> u8 {
                match self { $(Self::$name => $code,)+ }
            }

            /// The generic error code of this exit code.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// What the code means, for people.
            pub(crate) const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)+ }
            }
        }
    };
}

exits! {
    /// It worked.
    Success = 0, "success", "success (including an empty list or a closed pipe)";
    /// Anything without a specific code.
    Failure = 1, "failure", "unexpected failure";
    /// The command line is wrong.
    Usage = 2, "usage", "usage error, or input needed but no prompt possible (see --yes)";
    /// The input is wrong.
    Invalid = 3, "invalid_input", "invalid input, detected locally or by the service (400, 413, 415)";
    /// The key is wrong.
    Auth = 4, "no_access", "no key, a rejected key, or a key stored for another origin (401, 403)";
    /// It does not exist.
    NotFound = 5, "not_found", "not found (404)";
    /// It already exists.
    Conflict = 6, "conflict", "conflict, such as an ID in use (409)";
    /// The plan's limit is reached, or the request costs something.
    Payment = 7, "payment_required", "plan limit reached, or payment required (402)";
    /// Too many requests.
    RateLimited = 8, "rate_limited", "too many requests, even after retries (429)";
    /// No usable answer.
    Unavailable = 9, "unavailable", "network or TLS error, request timeout, or service failure (5xx)";
    /// Some of it worked.
    Partial = 10, "partial", "partial success: some operations failed";
    /// A check said no.
    CheckFailed = 11, "check_failed", "a signature or QR check failed";
    /// Not yet.
    Pending = 12, "pending", "still pending when the wait ended";
    /// Ctrl-C.
    Interrupted = 130, "interrupted", "stopped by Ctrl-C (SIGINT)";
    /// `kill`.
    Terminated = 143, "terminated", "stopped by SIGTERM";
}

impl Exit {
    /// The code for a reply of this HTTP status.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            400 | 413 | 415 => Self::Invalid,
            401 | 403 => Self::Auth,
            402 => Self::Payment,
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 => Self::RateLimited,
            500..=599 => Self::Unavailable,
            _ => Self::Failure,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
