# The formula for a Homebrew tap. packaging/build writes the version, the URL and the checksum of the source archive
# into target/packages/deeplink.rb. It builds from source, so it also works on macOS.
class Deeplink < Formula
  desc "Deep links for iOS, Android and the web, with the command-line tool dl"
  homepage "@RELEASES@"
  url "@RELEASES@/deeplink-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "deeplink-server")
    system "cargo", "install", *std_cargo_args(path: "deeplink-cli")
    generate_completions_from_executable(bin/"dl", "completions", shells: [:bash, :zsh, :fish])
    system bin/"dl", "man", "--dir", buildpath/"man"
    man1.install Dir["man/*.1"]
    (man1/"deeplink-server.1").write Utils.safe_popen_read("packaging/server-man-page", bin/"deeplink-server")
  end

  def post_install
    (var/"deeplink").mkpath
    chmod 0700, var/"deeplink"
  end

  service do
    run [opt_bin/"deeplink-server"]
    environment_variables DEEPLINK_DATA_DIR: var/"deeplink", DEEPLINK_FIRST_ACCOUNT: "off",
                          DEEPLINK_UNVERIFIED_LINK_TTL_DAYS: "0"
    working_dir var/"deeplink"
    keep_alive crashed: true
    error_log_path var/"log/deeplink.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/dl --version")
    port = free_port
    ENV["DEEPLINK_DATA_DIR"] = testpath/"data"
    ENV["DEEPLINK_LISTEN"] = "127.0.0.1:#{port}"
    made = shell_output("#{bin}/deeplink-server tenant create --email you@example.com --json")
    ENV["DL_API_KEY"] = JSON.parse(made)["api_key"]
    ENV["DL_BASE_URL"] = "http://127.0.0.1:#{port}"
    server = spawn bin/"deeplink-server"
    begin
      sleep 2
      assert_match "/r/first", shell_output("#{bin}/dl links create https://example.com/ --id first")
    ensure
      Process.kill "TERM", server
      Process.wait server
    end
  end
end
