//! `dl qr-logos`: logos that are uploaded for QR codes.

mod delete;
mod get;
mod list;
mod put;

commands! {
    /// Upload, list, download and delete logos for QR codes
    #[command(after_help = crate::help::help("", &["dl qr-logos put acme logo.png", "dl qr-logos list"]))]
    QrLogos {
        List(list::List),
        Put(put::Put),
        Get(get::Get),
        Delete(delete::Delete),
    }
}
