//! Draws links as QR codes.

mod logo;

pub use logo::Logo;
