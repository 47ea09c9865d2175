//! Logos that are uploaded for QR codes.

use bytes::Bytes;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::qr_logo::{MAX_LOGO_BYTES, QrLogo, QrLogoList, check_logo_name};
use deeplink_core::routes;

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;

/// The operations on uploaded logos; see [`crate::Client::qr_logos`]. A code shows one with
/// [`QrOptions::logo`](crate::QrOptions::logo) set to `name:` followed by its name.
#[derive(Debug, Clone)]
pub struct QrLogos(pub(crate) Connection);

impl QrLogos {
    /// The uploaded logos, in alphabetical order: at most 20.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// for logo in dl.qr_logos().list().await?.logos {
    ///     println!("{}: {} × {}", logo.name, logo.width, logo.height);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Call<QrLogoList> {
        call::json(&self.0, &routes::LIST_QR_LOGOS, &[])
    }

    /// Uploads a logo: the bytes of a PNG, JPEG or WebP file of at most 512 KiB. One with the same name is replaced.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{QrFormat, QrOptions};
    /// # let file = deeplink_client::mock::fixtures::qr_code(QrFormat::Png);
    /// let logo = dl.qr_logos().put("acme", file).await?;
    /// let look = QrOptions::new().logo(format!("name:{}", logo.name));
    /// let png = dl.links().qr("spring-42", QrFormat::Png, &look).await?;
    /// # Ok(()) });
    /// ```
    pub fn put(&self, name: impl AsRef<str>, image: impl Into<Bytes>) -> Call<QrLogo> {
        let (name, image) = (name.as_ref(), image.into());
        let valid = check_logo_name(name).and_then(|()| check_length(image.len()));
        let call = call::json(&self.0, &routes::PUT_QR_LOGO, &[name]);
        // The service looks at the file itself.
        let call = call.header("content-type", "application/octet-stream").edit(|draft| {
            draft.body = Some(image);
            Ok(())
        });
        call.valid(valid)
    }

    /// An uploaded logo, as a PNG.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let png = dl.qr_logos().get("acme").await?;
    /// assert!(png.starts_with(b"\x89PNG"));
    /// # Ok(()) });
    /// ```
    pub fn get(&self, name: impl AsRef<str>) -> Call<Bytes> {
        Call::new(&self.0, call::draft(&routes::GET_QR_LOGO, &[name.as_ref()]), decode::image)
    }

    /// Deletes an uploaded logo. New QR codes of links that use it have no logo.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.qr_logos().delete("acme").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, name: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_QR_LOGO, &[name.as_ref()]), decode::nothing)
    }
}

fn check_length(bytes: usize) -> Result<(), Invalid> {
    if bytes <= MAX_LOGO_BYTES {
        return Ok(());
    }
    Err(Invalid::whole(ErrorCode::PayloadTooLarge, format!("the image is larger than {} KiB", MAX_LOGO_BYTES >> 10)))
}
