//! Every code that is drawn can be scanned: styles, sizes, logos and colours are drawn and read back, by two readers in
//! this process. `tests/qr-matrix` adds three more readers and every combination instead of a sample.
//!
//! A failure names the request of each code that was not read.

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
mod print;
mod readers;
mod requests;
mod svg;
