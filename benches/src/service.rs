//! A service under measurement, and the requests that its account sends.

use std::path::Path;

use crate::load;
use crate::process::Server;
use crate::scenario::{Failure, LINKS, Plan, ratio};

/// A service with data, and its key.
pub(crate) struct Service {
    pub(crate) server: Server,
    key: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Service {
    pub(crate) async fn fresh(plan: &Plan) -> Result<Self, Failure> {
        let folder = tempfile::tempdir_in(".")?;
        Self::on(plan, folder, &[]).await
    }

    /// A fresh service with additional settings.
    pub(crate) async fn with(plan: &Plan, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        Self::on(plan, tempfile::tempdir_in(".")?, settings).await
    }

    /// The service on an existing data folder.
    pub(crate) async fn on(plan: &Plan, folder: tempfile::TempDir, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let data = folder.path().join("data");
        let mut variables = vec![
            ("DEEPLINK_DATA_DIR", data.to_str().ok_or("path")?),
            ("DEEPLINK_LISTEN", "127.0.0.1:0"),
            ("DEEPLINK_LOG", "warn"),
            ("DEEPLINK_LIMIT_MISSES", "0"),
        ];
        variables.extend(settings);
        let server = Server::start(&plan.server, &[], &variables).await?;
        let key =
            server.banner.iter().flat_map(|line| line.split_whitespace()).find(|word| word.starts_with("dl_live_"));
        let kept = folder.path().join("key");
        let key = match key {
            Some(key) => {
                write_private(&kept, key)?;
                key.to_owned()
            }
            None => std::fs::read_to_string(&kept)?,
        };
        Ok(Self { server, key, folder })
    }

    /// Runs an operator command of the server on this service's data.
    pub(crate) async fn operator(&self, plan: &Plan, arguments: &[&str]) -> Result<(), Failure> {
        let mut command = tokio::process::Command::new(&plan.server);
        let done = command.args(arguments).env("DEEPLINK_DATA_DIR", self.folder.path().join("data")).output().await?;
        if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into()) }
    }

    /// Stops it; the data stays.
    pub(crate) async fn stopped(self) -> Result<tempfile::TempDir, Failure> {
        self.server.stop().await?;
        Ok(self.folder)
    }

    /// MB (10⁶ bytes) in the files of its data folder.
    pub(crate) fn folder_mb(&self) -> Result<f64, Failure> {
        let (mut bytes, mut folders) = (0, vec![self.folder.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() { folders.push(entry.path()) } else { bytes += entry.metadata()?.len() }
            }
        }
        Ok(ratio(bytes, 1e6))
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", self.key).into_bytes()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Vec<u8> {
        self.request("POST", path, body)
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        )
        .into_bytes()
    }

    pub(crate) async fn make_links(&self, prefix: &str, count: usize, template: &str) -> Result<(), Failure> {
        for first in (0..count).step_by(100) {
            let ids: Vec<String> = (first..(first + 100).min(count)).map(|n| format!("\"{prefix}{n}\"")).collect();
            let body = format!("{{\"template\":{template},\"custom_ids\":[{}]}}", ids.join(","));
            let (status, answer) = load::once(&self.server.address, &self.post("/v1/links/bulk", &body)).await?;
            if status != "201" {
                return Err(format!("bulk answered {status}: {answer}").into());
            }
        }
        Ok(())
    }

    /// Clicks of all links, as the service counts them.
    pub(crate) async fn clicks(&self, prefix: &str) -> Result<u64, Failure> {
        let mut all = 0;
        for n in 0..LINKS {
            let request = format!(
                "GET /v1/links/{prefix}{n}/timeseries HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
                self.key
            );
            let (_, body) = load::once(&self.server.address, request.as_bytes()).await?;
            let series: serde_json::Value = serde_json::from_str(&body)?;
            let buckets = series["data"].as_array().ok_or("no data")?;
            all += buckets.iter().filter_map(|bucket| bucket["clicks"].as_u64()).sum::<u64>();
        }
        Ok(all)
    }
}

/// `dl` refuses a key file that others may read.
pub(crate) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)?
        .write_all(text.as_bytes())
}
