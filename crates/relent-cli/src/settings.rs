//! Settings from the command line, over those of a file and the environment.

use std::path::PathBuf;

use relent_server::config::{Config, Override};

/// Where the settings of a server come from besides the environment.
#[derive(Debug, clap::Args)]
pub(crate) struct SettingArgs {
    /// Where the API listens; port 0 picks a free one [default: 127.0.0.1:8717]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// What this node does: `api` takes tasks, `worker` makes attempts [default: api,worker]
    #[arg(long, value_name = "ROLES")]
    role: Option<String>,
    /// Use a store also if it may lose acknowledged tasks; `relent store check` says whether it may
    #[arg(long)]
    allow_unsafe_store: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Where the settings of a store come from besides the environment.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The data directory [default: ./relent-data]
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<String>,
    /// Where tasks wait: `sqlite:` in the data directory, `postgres://…`, `redis://…`, or `memory:` for trials
    /// [default: sqlite:]. A password is better kept in RELENT_STORE__URL or in a file
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// A TOML file with settings; `relent config` prints every one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set anything, as in `--set server.grace_ms=5000`
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

impl SettingArgs {
    /// Everything that was said, here and in the environment.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        self.store.load_with(&[
            ("--listen", "server.listen", self.listen.as_deref()),
            ("--role", "server.roles", self.role.as_deref()),
            (
                "--allow-unsafe-store",
                "store.allow_unsafe",
                self.allow_unsafe_store.then_some("true"),
            ),
        ])
    }
}

impl StoreArgs {
    /// Everything that was said, here and in the environment.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        self.load_with(&[])
    }

    fn load_with(&self, more: &[(&str, &str, Option<&str>)]) -> anyhow::Result<Config> {
        let short = [
            ("--data", "store.data", self.data.as_deref()),
            ("--store", "store.url", self.store.as_deref()),
        ];
        let short = short
            .iter()
            .chain(more)
            .filter_map(|(flag, key, value)| value.map(|value| Override::new(*flag, *key, value)));
        let overrides: Vec<Override> =
            short.chain(self.set.iter().map(|text| Override::from_set(text))).collect();
        // Names and values that are not Unicode are nobody's settings.
        let env = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Ok(Config::load(self.config.as_deref(), env, &overrides)?)
    }
}
