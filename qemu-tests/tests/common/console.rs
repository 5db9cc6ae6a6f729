//! The first screen of a live system, and its keyboard.

use super::ok;
use qemu_tests::{shell::Shell, vm::Vm};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Of one script in a machine.
const SCRIPT_LIMIT: Duration = Duration::from_secs(300);
/// A few times what NetworkManager takes to activate a profile.
const SCREEN_LIMIT: Duration = Duration::from_secs(900);
const COLUMNS: usize = 80;

/// What a script in the machine prints.
pub(crate) fn text(shell: &mut Shell, script: &str) -> String {
    String::from_utf8_lossy(&ok(shell.run(script, SCRIPT_LIMIT))).into_owned()
}

/// The characters on the first screen, line by line.
fn screen(shell: &mut Shell) -> String {
    let cells: Vec<char> = text(shell, "cat /dev/vcs1").chars().collect();
    cells.chunks(COLUMNS).map(|line| line.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
}

/// Waits until the screen has all of `parts`; the screen.
pub(crate) fn wait_for(shell: &mut Shell, parts: &[&str]) -> String {
    let began = Instant::now();
    loop {
        let shown = screen(shell);
        if parts.iter().all(|part| shown.contains(part)) {
            return shown;
        }
        if began.elapsed() >= SCREEN_LIMIT {
            let unit = text(shell, "systemctl status landfall-console.service getty@tty1.service 2>&1 || :");
            panic!("the screen lacks some of {parts:?}:\n{shown}\n{unit}");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Presses keys by QEMU's names, one after the other.
pub(crate) fn press(vm: &mut Vm, keys: &[&str]) {
    for key in keys {
        let key: Vec<Value> = key.split('+').map(|key| json!({"type": "qcode", "data": key})).collect();
        ok(vm.execute("send-key", json!({"keys": key, "hold-time": 20})));
        // A key that comes before the last one is up is lost.
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Types what is made of letters, digits, periods and slashes.
pub(crate) fn type_in(vm: &mut Vm, text: &str) {
    for c in text.chars() {
        let name = match c {
            '.' => "dot".to_owned(),
            '/' => "slash".to_owned(),
            c => c.to_string(),
        };
        press(vm, &[&name]);
    }
}
