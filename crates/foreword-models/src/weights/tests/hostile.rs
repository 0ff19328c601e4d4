//! A working directory that came from a stranger, and an environment full of keys: nothing from the one runs, nothing of the other is seen.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::super::pip;
use super::*;

/// What must not be seen by pip.
const SECRETS: [(&str, &str); 24] = [
    ("ANTHROPIC_API_KEY", "secret"),
    ("OPENAI_API_KEY", "secret"),
    ("GEMINI_API_KEY", "secret"),
    ("DEEPSEEK_API_KEY", "secret"),
    ("OPENROUTER_API_KEY", "secret"),
    ("WORK_KEY", "secret"),
    ("GITHUB_TOKEN", "secret"),
    ("HF_TOKEN", "secret"),
    ("AWS_ACCESS_KEY_ID", "secret"),
    ("AWS_SECRET_ACCESS_KEY", "secret"),
    ("DATABASE_URL", "secret"),
    ("SSH_AUTH_SOCK", "/secret"),
    ("PGPASSWORD", "secret"),
    ("PYTHONPATH", "."),
    ("PYTHONSTARTUP", "sitecustomize.py"),
    ("PYTHONHOME", "."),
    ("PYTHONUSERBASE", "."),
    ("PYTHONINSPECT", "1"),
    ("PIP_PYTHON", "./python3"),
    ("PIP_TARGET", "."),
    ("PIP_CONFIG_FILE", "pip.conf"),
    ("LD_PRELOAD", "./evil.so"),
    ("BASH_ENV", "./env.sh"),
    ("ENV", "./env.sh"),
];

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A vault in which everything that could be run by accident leaves a mark.
fn hostile_vault(world: &World) -> PathBuf {
    let (vault, marks) = (world.path.join("vault"), world.path.join("marks"));
    fs::create_dir_all(&marks).unwrap();
    for name in ["python3", "pip3", "py", "sh", "bin/python3", "bin/pip3", "bin/pip"] {
        program(&vault.join(name), &format!("#!/bin/sh\n: > '{}/{}'\n", marks.display(), name.replace('/', "-")));
    }
    for name in
        ["pip.py", "pip/__init__.py", "pip/__main__.py", "sitecustomize.py", "usercustomize.py", "site.py", "os.py", "runpy.py"]
    {
        let mark = marks.join(name.replace('/', "-"));
        program(&vault.join(name), &format!("open({:?}, 'w').close()\n", mark.display().to_string()));
    }
    fs::write(vault.join("pip.conf"), format!("[global]\npython = {}/python3\n", vault.display())).unwrap();
    vault
}

fn marks(world: &World) -> BTreeSet<String> {
    names(&world.path.join("marks")).into_iter().collect()
}

/// Fetches in another process, which works in the vault.
fn fetch_in(world: &World, vault: &Path, path: &str) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "weights::tests::hostile::the_process_in_the_vault", "--nocapture"]);
    process.env("FOREWORD_TEST_VAULT_WORLD", &world.path).env("PATH", path).env("PIP_NO_INDEX", "1").envs(SECRETS);
    // Only for this process: it could not be started with such a loader or shell.
    process.env_remove("LD_PRELOAD").current_dir(vault);
    let done = process.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Does nothing unless another test starts it as a process of its own.
#[test]
fn the_process_in_the_vault() {
    let Some(path) = std::env::var_os("FOREWORD_TEST_VAULT_WORLD") else { return };
    let world = World::at(path.into());
    let sources = Sources { mirror: None, pip: pip::USERS };
    let fetched = fetch_with(&world.weights, &world.cache(), sources, &mut |_| ControlFlow::Continue(()));
    let said = fetched.map_or_else(|error| error.to_string(), |_| "fetched".to_owned());
    fs::write(world.path.join("outcome"), said).unwrap();
}

#[test]
fn pip_gets_no_keys_and_works_in_a_private_folder() {
    let world = world();
    let vault = hostile_vault(&world);
    let script = world.pip(GOOD);
    let seen = world.path.join("seen");
    // A Python that notes how it was started, then does what pip should.
    let python = format!(
        "#!/bin/sh\necho \"$@\" >> '{seen}.args'\npwd >> '{seen}.folder'\nenv >> '{seen}.env'\nshift 3\nexec /bin/sh '{script}' \"$@\"\n",
        seen = seen.display(),
    );
    program(&world.path.join("outside/python3"), &python);
    let hostile = vault.display();
    fetch_in(&world, &vault, &format!(".::{hostile}:{hostile}/bin:bin:{}:/usr/bin:/bin", world.path.join("outside").display()));

    let read = |end: &str| fs::read_to_string(world.path.join(format!("seen.{end}"))).unwrap();
    assert_eq!(fs::read_to_string(world.path.join("outcome")).unwrap(), "fetched");
    assert_eq!(marks(&world), BTreeSet::new());
    assert!(read("args").lines().all(|line| line.starts_with("-I -m pip download")), "{}", read("args"));
    assert!(read("args").contains("--only-binary=:all:"));
    let cache = world.cache().canonicalize().unwrap();
    assert!(read("folder").lines().all(|line| Path::new(line).starts_with(&cache)), "{}", read("folder"));
    let environment = read("env");
    assert!(environment.contains("PIP_NO_INDEX=1"));
    for (name, value) in SECRETS {
        assert!(!environment.lines().any(|line| line.starts_with(&format!("{name}="))), "{name} was seen");
        assert!(value.len() < 6 || !environment.contains(value), "the value of {name} was seen");
    }
}

#[test]
fn nothing_in_a_hostile_working_directory_runs() {
    let world = world();
    let vault = hostile_vault(&world);
    let path = std::env::var("PATH").unwrap();
    let python = |arguments: &[&str]| Command::new("python3").args(arguments).current_dir(&vault).output().is_ok();
    if !python(&["-m", "pip", "--version"]) {
        return; // No Python here, so pip is never started.
    }
    assert!(!marks(&world).is_empty(), "the vault does harm where pip is started carelessly");
    fs::remove_dir_all(world.path.join("marks")).unwrap();
    fs::create_dir(world.path.join("marks")).unwrap();

    fetch_in(&world, &vault, &format!(".::{0}:{0}/bin:bin:{path}", vault.display()));
    let outcome = fs::read_to_string(world.path.join("outcome")).unwrap();
    assert!(outcome.starts_with("cannot download toy"), "{outcome}");
    assert_eq!(marks(&world), BTreeSet::new(), "{outcome}");
}
