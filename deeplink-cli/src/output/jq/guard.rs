//! What stops a program that recurses without end, before the stack overflows.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jaq_core::data::HasLut;
use jaq_core::{DataT, Lut};
use jaq_json::Val;

use crate::stack::Limit;

/// What programs work on.
pub(super) struct Data;

impl DataT for Data {
    type V<'a> = Val;
    type Data<'a> = Guarded<'a>;
}

/// The table of a program's terms. Every step of its evaluation looks there, so that this is where the stack is watched.
#[derive(Clone)]
pub(super) struct Guarded<'a> {
    table: &'a Lut<Data>,
    limit: Limit,
}

impl<'a> Guarded<'a> {
    /// For a run that begins here.
    pub(super) fn from_here(table: &'a Lut<Data>) -> Self {
        Self { table, limit: Limit::from_here() }
    }
}

impl<'a> HasLut<'a, Data> for Guarded<'a> {
    fn lut(&self) -> &'a Lut<Data> {
        if self.limit.is_exceeded() {
            // There is no other way out of an evaluation. Nothing is printed, and `catch` is where it ends.
            resume_unwind(Box::new(TooDeep));
        }
        self.table
    }
}

/// The program recurses too deeply.
#[derive(Debug)]
pub(super) struct TooDeep;

/// Runs a part of an evaluation, and stops where it recurses too deeply. What was evaluated must not be used after that.
pub(super) fn catch<T>(evaluate: impl FnOnce() -> T) -> Result<T, TooDeep> {
    catch_unwind(AssertUnwindSafe(evaluate)).map_err(|payload| match payload.downcast::<TooDeep>() {
        Ok(too_deep) => *too_deep,
        Err(panic) => resume_unwind(panic),
    })
}
