#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

/// A vault with a program in it, and a folder outside with another one.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        for path in ["vault/tool", "vault/bin/tool", "outside/tool", "home/bin/tool"] {
            let file = world.path(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(world.path("outside/data"), "").unwrap();
        symlink(world.path("vault/bin"), world.path("outside/link")).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// With the working directory `current`; `@` in a value is this world.
    fn surroundings(&self, current: &str, variables: &[(&str, &str)]) -> Surroundings {
        let root = self.path("");
        let filled = |value: &str| value.replace('@', root.to_str().unwrap().trim_end_matches('/')).into();
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), filled(value))).collect();
        Surroundings::new(variables, Some(&self.path(current)))
    }
}

#[test]
fn programs_come_from_absolute_folders_outside_of_the_working_directory() {
    let world = World::new();
    let check = |current: &str, path: &str, name: &str, expect: Option<&str>| {
        let found = world.surroundings(current, &[("PATH", path), ("HOME", "@/home")]).find(name).ok();
        assert_eq!(found, expect.map(|expect| world.path(expect)), "{name} in {path:?} from {current}");
    };
    let outside = Some("outside/tool");
    check("vault", "@/outside", "tool", outside);
    for hostile in [".", "", "bin", "./bin", "@/vault", "@/vault/bin", "@/vault/", "@/outside/../vault", "@/outside/link"] {
        check("vault", &format!("{hostile}:@/outside"), "tool", outside);
        check("vault", hostile, "tool", None);
    }
    check("vault/bin", "@/vault:@/outside", "tool", Some("vault/tool"));
    check("vault", "@/outside", "data", None);
    check("vault", "@/outside", "./tool", None);
    check("vault", "@/outside", "bin/tool", None);
    check("vault", "", "no-such-tool", None);
    let (there, inside) = (world.path("outside/tool"), world.path("vault/tool"));
    check("vault", "", there.to_str().unwrap(), outside);
    check("vault", "", inside.to_str().unwrap(), None);
    // The folder that the user's own home is in, and that home, are not from a stranger.
    check("home", "@/home/bin", "tool", Some("home/bin/tool"));
    check("", "@/home/bin", "tool", Some("home/bin/tool"));
}

#[test]
fn an_environment_holds_what_is_allowed_and_no_path_into_the_working_directory() {
    let world = World::new();
    let variables = [
        ("PATH", ".:@/vault/bin:@/outside:"),
        ("HOME", "@/home"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "tmp"),
        ("EXTRA", "1"),
        ("EXTRA_FILE", "@/outside/data"),
        ("INNER_FILE", "@/vault/x"),
        ("LOCAL_FILE", "x"),
        ("OPENAI_API_KEY", "k"),
        ("GITHUB_TOKEN", "k"),
        ("LD_PRELOAD", "@/vault/x.so"),
        ("PYTHONPATH", "@/vault"),
    ];
    let found = world.surroundings("vault", &variables).environment(&["EXTRA"], &["EXTRA_FILE", "INNER_FILE", "LOCAL_FILE"]);
    let names: Vec<_> = found.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    assert_eq!(names, ["PATH", "LANG", "EXTRA", "HOME", "EXTRA_FILE"]);
    assert_eq!(found[0].1, world.path("outside").into_os_string());
}
