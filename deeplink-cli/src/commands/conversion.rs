//! A conversion as flags, and its result: shared by the commands that report with a key and that post to a source.

use clap::Args;
use deeplink_client::{Converted, Full};
use deeplink_core::lifecycle::Convert;
use deeplink_core::time::Timestamp;

use crate::clock::{self, parse_moment};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::output::Sheet;
use crate::{escape, metadata};

/// Flags for the fields of a conversion.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Conversion")]
pub(crate) struct Conversion {
    /// User ID in your app
    #[arg(long, value_name = "ID")]
    user: String,
    /// Conversion type, such as purchase
    #[arg(long = "type", value_name = "WORD")]
    conversion_type: String,
    /// Revenue in hundredths of the currency unit; negative for a refund
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    amount_cents: Option<i64>,
    /// Currency of the amount: an ISO 4217 code such as EUR
    #[arg(long, value_name = "CODE")]
    currency: Option<String>,
    /// Idempotency key: repeats within 30 days are ignored (keys sent with publishable keys are separate from others)
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    idempotency_key: Option<String>,
    /// Metadata entry, as a string; may be repeated
    #[arg(long, value_name = "K=V", allow_hyphen_values = true, conflicts_with = "meta_json")]
    meta: Vec<String>,
    /// Metadata as a JSON object, or @FILE containing one
    #[arg(long, value_name = "JSON|@FILE")]
    meta_json: Option<String>,
    /// When it happened: RFC 3339, a date, or how long ago such as 2h [default: now]
    #[arg(long, value_name = "WHEN", value_parser = parse_moment)]
    occurred_at: Option<Timestamp>,
}

impl Conversion {
    /// The body, after every rule of the service.
    pub(crate) fn read(self, ctx: &Context) -> Outcome<Convert> {
        let mut convert = Convert::new(self.user, self.conversion_type);
        convert.metadata = metadata::read(ctx, &self.meta, self.meta_json.as_deref())?;
        (convert.amount_cents, convert.currency) = (self.amount_cents, self.currency);
        (convert.idempotency_key, convert.occurred_at) = (self.idempotency_key, self.occurred_at);
        convert.validate(clock::now())?;
        Ok(convert)
    }
}

/// Prints the result of a conversion: in a table its event's id. One that was not stored is a failure.
pub(crate) fn print(ctx: &Context, sheet: &Sheet<'_>, convert: &Convert, reply: &Full<Converted>) -> Outcome {
    let found = &reply.value;
    if found.event_id.is_some() || ctx.out.format.is_json() || sheet.fields.is_some() {
        sheet.created(&String::from_utf8_lossy(&reply.raw))?;
    }
    if found.failed > 0 {
        let what = "monthly event limit reached: the conversion was not stored";
        let failure = Failure::new(Exit::Payment, what).code("quota_exceeded");
        return Err(failure.hint("upgrade the plan, or send it again next month").into());
    }
    if found.deduped > 0 {
        ctx.console.note("already recorded with this idempotency key: nothing was stored");
    }
    if found.unattributed > 0 {
        let user = escape::one_line(&convert.user_id);
        ctx.console.note(&format!(
            "user {user} has no install yet; the conversion is credited once dl sdk identify binds one"
        ));
    }
    Ok(())
}
