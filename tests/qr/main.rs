//! Every code that is drawn can be scanned: styles, sizes, logos and colours are drawn and read back, by two readers in
//! this process. Three more readers, and every combination instead of a sample, are `tests/qr-matrix`'s.
//!
//! What was not read stands in the failure as the request that draws it.

mod cases;
mod colours;
mod g1;
mod g2;
mod g3;
mod g4;
mod g5;
mod g6;
mod logos;
mod pictures;
mod png;
mod readers;
mod requests;
mod svg;
