use super::*;

/// A disk that keeps to the state machine of ACS-4, figure 12, and fails one command.
struct Fake {
    supported: bool,
    frozen: bool,
    enhanced: bool,
    password: Option<Vec<u8>>,
    locked: bool,
    prepared: bool,
    erased: Option<bool>,
    fails: Option<Command>,
    log: Vec<Command>,
}

impl Fake {
    fn new() -> Self {
        Self {
            supported: true,
            frozen: false,
            enhanced: true,
            password: None,
            locked: false,
            prepared: false,
            erased: None,
            fails: None,
            log: Vec::new(),
        }
    }
}

impl Ata for Fake {
    fn run(&mut self, command: Command, data: &mut [u8; SECTOR], timeout: Duration) -> io::Result<()> {
        self.log.push(command);
        if self.fails == Some(command) {
            return Err(io::Error::other("aborted"));
        }
        let matches = self.password.as_deref() == Some(&data[2..34]);
        let abort = |wrong: bool| if wrong { Err(io::Error::other("wrong password")) } else { Ok(()) };
        match command {
            Command::Identify => {
                let bits = [self.supported, self.password.is_some(), self.locked, self.frozen, false, self.enhanced];
                let status: u8 = (0..).zip(bits).map(|(bit, set)| u8::from(set) << bit).sum();
                data[82 * 2] = u8::from(self.supported) << 1;
                data[128 * 2] = status;
                (data[89 * 2], data[90 * 2]) = (60, 60);
            }
            Command::SetPassword => self.password = Some(data[2..34].to_vec()),
            Command::Unlock => {
                abort(!matches)?;
                self.locked = false;
            }
            Command::DisablePassword => {
                abort(self.locked || !matches)?;
                self.password = None;
            }
            Command::ErasePrepare => self.prepared = true,
            Command::EraseUnit => {
                abort(!self.prepared || !matches)?;
                assert_eq!(timeout, Duration::from_secs(120 * 60 + 1800));
                self.erased = Some(data[0] & 2 != 0);
                self.password = None;
                self.locked = false;
            }
        }
        Ok(())
    }
}

fn padded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(32, 0);
    bytes
}

#[test]
fn commands_are_sat_s() {
    let cdb = |command: Command| command.cdb();
    assert_eq!(cdb(Command::Identify), [0x85, 0x08, 0x0E, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xEC, 0]);
    assert_eq!(cdb(Command::SetPassword), [0x85, 0x0A, 0x06, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xF1, 0]);
    assert_eq!(cdb(Command::ErasePrepare), [0x85, 0x06, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xF3, 0]);
    assert_eq!(cdb(Command::EraseUnit)[14], 0xF4);
    assert_eq!(cdb(Command::DisablePassword)[14], 0xF6);
    assert_eq!(cdb(Command::Unlock)[14], 0xF2);
    let data = password(true);
    assert_eq!(data[..11], *b"\x02\0landfall\0");
    assert!(data[11..].iter().all(|byte| *byte == 0));
    assert_eq!(password(false)[..2], [0, 0]);
}

#[test]
fn identify_tells_the_state() {
    let mut data = [0; SECTOR];
    assert!(!security(&data).supported);
    assert!(!security(&[]).supported && !security(&[0xFF; SECTOR]).supported);
    data[164] = 2;
    (data[256], data[178], data[180]) = (0b10_1001, 30, 255);
    let state = security(&data);
    assert!(state.supported && state.frozen && state.enhanced && !state.enabled && !state.locked && !state.expired);
    assert_eq!((state.normal_minutes, state.enhanced_minutes), (Some(60), None));
    assert_eq!([0, 1, 0x8100, 0xFFFF].map(minutes), [None, Some(2), Some(512), None]);
}

#[test]
fn a_disk_is_erased_and_left_without_password() {
    for (enhanced, how) in [(true, "enhanced"), (false, "normal")] {
        let mut disk = Fake { enhanced, ..Fake::new() };
        assert_eq!(erase(&mut disk).unwrap(), format!("ATA SECURITY ERASE UNIT, {how}"));
        assert_eq!((&disk.password, disk.erased), (&None, Some(enhanced)));
    }
}

#[test]
fn no_failure_leaves_a_password() {
    for fails in [Command::SetPassword, Command::ErasePrepare, Command::EraseUnit] {
        let mut disk = Fake { fails: Some(fails), ..Fake::new() };
        let error = erase(&mut disk).unwrap_err();
        assert!(matches!(error, AtaError::Failed { command, .. } if command == fails), "{error}");
        assert_eq!((&disk.password, disk.erased), (&None, None), "{fails}");
    }
}

#[test]
fn a_remaining_password_is_reported() {
    struct Stuck(Fake);
    impl Ata for Stuck {
        fn run(&mut self, command: Command, data: &mut [u8; SECTOR], timeout: Duration) -> io::Result<()> {
            if matches!(command, Command::EraseUnit | Command::DisablePassword) {
                return Err(io::Error::other("aborted"));
            }
            self.0.run(command, data, timeout)
        }
    }
    let error = erase(&mut Stuck(Fake::new())).unwrap_err();
    assert!(matches!(error, AtaError::Locked { .. }) && error.to_string().contains("'landfall'"), "{error}");
}

#[test]
fn an_erasure_that_lost_its_power_is_taken_up() {
    let mut disk = Fake { password: Some(padded(PASSWORD)), locked: true, ..Fake::new() };
    erase(&mut disk).unwrap();
    assert_eq!((&disk.password, disk.erased), (&None, Some(true)));
}

#[test]
fn what_cannot_be_erased_is_left_alone() {
    let refusal = |mut disk: Fake| {
        let Err(AtaError::Refused(reason)) = erase(&mut disk) else { panic!("not refused") };
        assert!(!disk.log.contains(&Command::SetPassword) && disk.erased.is_none());
        reason
    };
    assert!(refusal(Fake { supported: false, ..Fake::new() }).contains("no ATA security"));
    assert!(refusal(Fake { frozen: true, ..Fake::new() }).contains("suspend"));
    assert!(refusal(Fake { password: Some(padded("theirs")), ..Fake::new() }).contains("has an ATA password"));
    assert!(
        refusal(Fake { password: Some(padded("theirs")), locked: true, ..Fake::new() }).contains("has an ATA password")
    );
    assert!(refusal(Fake { fails: Some(Command::Identify), ..Fake::new() }).contains("IDENTIFY"));
}
