//! Where files live: one pure function from what the surface sees around it.

use std::path::{Path, PathBuf};

/// A home: the directories of its three roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The two stores.
    pub state: PathBuf,
    /// What may be deleted at any time.
    pub cache: PathBuf,
    /// Limits, durability, schedules.
    pub config: PathBuf,
    /// Why it is this one.
    pub source: HomeSource,
}

/// What led to a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeSource {
    /// It was named by the caller.
    Named,
    /// `DUOLOG_HOME`.
    Environment,
    /// A `.duolog` folder here or above.
    Project,
    /// The user's directories.
    User,
}

impl HomeSource {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Named => "--home",
            Self::Environment => "DUOLOG_HOME",
            Self::Project => ".duolog folder",
            Self::User => "user directories",
        }
    }
}

/// The folder that makes a directory and all below it a home of its own.
pub const PROJECT_FOLDER: &str = ".duolog";

/// What a surface sees around it.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// What the caller named.
    pub named: Option<PathBuf>,
    /// `DUOLOG_HOME`.
    pub duolog_home: Option<PathBuf>,
    /// The current directory.
    pub cwd: PathBuf,
    /// The user's home directory.
    pub user_home: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub xdg_state_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`.
    pub xdg_cache_home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
}

/// Nothing says where files should live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no home: neither --home nor DUOLOG_HOME is given, no .duolog folder is here or above, and HOME is not set"
)]
pub struct NoHome;

impl Home {
    /// The home in a directory of its own.
    pub fn beneath(directory: &Path) -> Self {
        Self::of(directory, HomeSource::Named)
    }

    fn of(directory: &Path, source: HomeSource) -> Self {
        let role = |name| directory.join(name);
        Self { state: role("state"), cache: role("cache"), config: role("config"), source }
    }

    /// The home that is meant. The first that is there wins: named, environment, project folder, the user's own.
    ///
    /// `is_folder` is asked whether a directory exists; nothing else is looked at.
    pub fn discover(around: &Surroundings, is_folder: &dyn Fn(&Path) -> bool) -> Result<Self, NoHome> {
        // A relative path means the same wherever the process goes later.
        let absolute = |path: &Path| around.cwd.join(path);
        let given = |path: &Option<PathBuf>| path.as_deref().filter(|path| !path.as_os_str().is_empty()).map(absolute);
        if let Some(directory) = given(&around.named) {
            return Ok(Self::of(&directory, HomeSource::Named));
        }
        if let Some(directory) = given(&around.duolog_home) {
            return Ok(Self::of(&directory, HomeSource::Environment));
        }
        let folders = around.cwd.ancestors().map(|at| at.join(PROJECT_FOLDER));
        if let Some(folder) = folders.into_iter().find(|folder| is_folder(folder)) {
            return Ok(Self::of(&folder, HomeSource::Project));
        }
        // As the XDG rules say, a relative value counts as unset.
        let role = |xdg: &Option<PathBuf>, fallback: &str| {
            let base = xdg.clone().filter(|path| path.is_absolute());
            let base = base.or_else(|| Some(given(&around.user_home)?.join(fallback))).ok_or(NoHome)?;
            Ok(base.join("duolog"))
        };
        Ok(Self {
            state: role(&around.xdg_state_home, ".local/state")?,
            cache: role(&around.xdg_cache_home, ".cache")?,
            config: role(&around.xdg_config_home, ".config")?,
            source: HomeSource::User,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Surroundings {
        Surroundings { cwd: "/srv/project/src".into(), user_home: Some("/home/ada".into()), ..Surroundings::default() }
    }

    fn state_of(around: &Surroundings, folder: &str) -> PathBuf {
        Home::discover(around, &|path| path == Path::new(folder)).expect("a home").state
    }

    #[test]
    fn the_first_that_is_there_wins() {
        let mut around = around();
        assert_eq!(state_of(&around, "-"), Path::new("/home/ada/.local/state/duolog"));
        around.xdg_state_home = Some("/xdg".into());
        assert_eq!(state_of(&around, "-"), Path::new("/xdg/duolog"));
        assert_eq!(state_of(&around, "/srv/.duolog"), Path::new("/srv/.duolog/state"));
        around.duolog_home = Some("/env".into());
        assert_eq!(state_of(&around, "/srv/.duolog"), Path::new("/env/state"));
        around.named = Some("named".into());
        assert_eq!(state_of(&around, "/srv/.duolog"), Path::new("/srv/project/src/named/state"));
    }

    #[test]
    fn what_is_empty_or_relative_where_it_may_not_be_counts_as_unset() {
        let mut around = around();
        around.duolog_home = Some(PathBuf::new());
        around.xdg_state_home = Some("relative".into());
        assert_eq!(state_of(&around, "-"), Path::new("/home/ada/.local/state/duolog"));
        around.user_home = None;
        assert_eq!(Home::discover(&around, &|_| false), Err(NoHome));
    }
}
