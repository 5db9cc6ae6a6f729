use super::*;
use crate::plan::read::EXAMPLE;

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse("plan.toml", text, &|name| match name {
        "x.toml" => Ok("[memory]\ninstalled_bytes = '64 GiB'\n".to_owned()),
        "bad.toml" => Ok("\nmemroy = 1".to_owned()),
        _ => Err(PlanError::Read { file: name.to_owned(), source: std::io::ErrorKind::NotFound.into() }),
    })
}

const WHOLE: &str = r#"
name = "Model X"
tester = "lab 2"
policy = { mismatch = "note", hosts = 3 }
[[sku]]
name = "X-100"
match = { system.product.product_name = "X 100*" }
expect = "x.toml"
[[sku]]
name = "other"
expect = { memory = { devices = [{ count = 2 }] } }
[[step]]
do = "network"
for = "5s"
min_mbit = 900
[[step]]
do = "disk-speed"
max_ms = 2.5
disk = "/dev/sdb"
[[step]]
do = "burnin"
for = "10m"
only = ["cpu", "memory"]
memory = "64GiB"
destroy = ["/dev/sdc"]
[[step]]
do = "attest"
[[step]]
do = "install"
[[step]]
do = "boot"
[[step]]
do = "power-cut"
"#;

#[test]
fn a_plan_is_read_with_its_expectations_and_survives_json() {
    let plan = parse(WHOLE).unwrap();
    assert_eq!((plan.policy.mismatch, plan.policy.hosts, plan.skus.len()), (Mismatch::Note, Some(3), 2));
    assert_eq!(plan.skus[0].expect, "[memory]\ninstalled_bytes = '64 GiB'\n");
    let names: Vec<_> = plan.steps.iter().map(Step::name).collect();
    assert_eq!(names, ["report", "network", "disk-speed", "burnin", "attest", "install", "boot", "power-cut"]);
    assert_eq!(plan.steps[1], Step::Network { seconds: 5, min_mbit: Some(900) });
    assert_eq!(plan.steps[2], Step::DiskSpeed { seconds: 10, max_ms: Some(2.5), disk: Some("/dev/sdb".to_owned()) });
    let json = plan.to_json();
    let read = Plan::from_json(&json).unwrap();
    assert_eq!((&read, read.to_json(), read.sha256()), (&plan, json, plan.sha256()));
}

#[test]
fn a_report_is_compared_with_the_first_sku_that_it_matches() {
    let plan = parse(WHOLE).unwrap();
    let report = |name: &str, bytes: u64| {
        serde_json::json!({
            "system": { "product": { "product_name": name } },
            "memory": { "installed_bytes": bytes, "devices": [{}, {}] }
        })
    };
    let compared = |report: &Value| {
        let comparison = plan.compare(report);
        (comparison.sku.unwrap_or_default(), comparison.differences)
    };
    assert_eq!(compared(&report("X 100 B", 64 << 30)), ("X-100".to_owned(), vec![]));
    let differences = vec!["memory.installed_bytes: expected 64 GiB, found 32 GiB".to_owned()];
    assert_eq!(compared(&report("X 100 B", 32 << 30)), ("X-100".to_owned(), differences));
    assert_eq!(compared(&report("Y", 32 << 30)), ("other".to_owned(), vec![]));
    let mut plan = plan.clone();
    plan.skus.pop();
    let none = plan.compare(&report("Y", 0));
    assert_eq!((none.sku, none.differences), (None, vec!["matches no SKU of the plan: X-100".to_owned()]));
}

#[test]
fn the_example_is_a_plan_also_with_what_stands_behind_comments() {
    assert_eq!(parse(EXAMPLE).unwrap().steps.len(), 4);
    let whole: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(code) if !code.starts_with(' ') => code.replace("x-100.toml", "x.toml") + "\n",
            _ => line.to_owned() + "\n",
        })
        .collect();
    let plan = parse(&whole).unwrap();
    assert_eq!((plan.skus.len(), plan.steps.len(), plan.policy.hosts), (2, 9, Some(3)), "{whole}");
}

#[test]
fn a_mistake_has_its_line_and_column() {
    let step = |rest: &str| format!("name = 'x'\n[[step]]\n{rest}");
    let sku = |rest: &str| format!("name = 'x'\n[[sku]]\nname = 's'\n{rest}");
    let cases = [
        ("name = = 1".to_owned(), "line 1, column 8: not valid TOML: "),
        (String::new(), "line 1, column 1: the plan needs name = ..., which is a text"),
        ("name = ''".to_owned(), "line 1, column 1: name must be one line of 1 to 200 bytes"),
        ("name = 1".to_owned(), "line 1, column 8: name of the plan is a text"),
        (
            "name = 'x'\n  color = 1".to_owned(),
            "line 2, column 3: the plan has no color; it has name, tester, policy, sku, step",
        ),
        (
            "name = 'x'\npolicy = { mismatch = 'off' }".to_owned(),
            "line 2, column 23: mismatch of the policy is \"block\" or \"note\", not \"off\"",
        ),
        (
            "name = 'x'\npolicy.hosts = -1".to_owned(),
            "line 2, column 16: hosts of the policy is a number, decimal and not negative",
        ),
        ("name = 'x'\npolicy.hosts = 0".to_owned(), "line 1, column 1: policy.hosts must be from 1 to 4096"),
        ("name = 'x'\nstep = 'burnin'".to_owned(), "line 2, column 8: step of the plan is a list of tables ([[step]])"),
        (step("for = '1s'"), "line 2, column 1: a step needs do = ..., which is report, network, "),
        (
            step("do = 'dance'"),
            "line 3, column 6: do of a step `dance` is report, network, disk-speed, burnin, attest, install, boot or power-cut, not `dance`",
        ),
        (step("do = 'boot'\nfor = '1s'"), "line 4, column 1: a step `boot` has no for; it has do"),
        (step("do = 'burnin'"), "line 2, column 1: a step `burnin` needs for = ..., which is a time such as \"10m\""),
        (
            step("do = 'burnin'\nfor = '1w'"),
            "line 4, column 7: for of a step `burnin` is a time such as \"10m\", but \"1w\" is not: ",
        ),
        (step("do = 'burnin'\nfor = '300d'"), "line 2, column 1: `for` must be from 1s to 30d"),
        (
            step("do = 'burnin'\nfor = '1s'\nonly = ['gpu']"),
            "line 2, column 1: only: 'gpu' is not one of cpu, memory, disk, net",
        ),
        (step("do = 'disk-speed'\nmax_ms = -1.5"), "line 2, column 1: max_ms must be more than 0"),
        (
            sku(""),
            "line 2, column 1: a SKU needs expect = ..., which is the name of a file beside the plan, or a table",
        ),
        (sku("expect = 1"), "line 4, column 10: expect of a SKU is the name of a file beside the plan, or a table"),
        (sku("expect = 'none.toml'"), "line 4, column 10: cannot read none.toml: "),
        (
            sku("expect = 'bad.toml'"),
            "line 4, column 10: bad.toml: line 2: a report has no memroy; did you mean memory?",
        ),
        (sku("expect = { memroy = 1 }"), "line 2, column 1: expect: a report has no memroy; did you mean memory?"),
        (sku("expect = {}\nmatch = { a = 1 }"), "line 2, column 1: match: a report has no a; "),
        (sku("expect = {}\n[[sku]]\nname = 's'\nexpect = {}"), "line 5, column 1: the name 's' is used twice"),
    ];
    for (text, message) in cases {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("plan.toml: {message}")), "{text}\n{error}\n{message}");
    }
}

#[test]
fn json_is_checked_as_the_file_is() {
    let change = |change: &dyn Fn(&mut Plan)| {
        let mut plan = parse(WHOLE).unwrap();
        change(&mut plan);
        Plan::from_json(&plan.to_json()).unwrap_err().to_string()
    };
    assert_eq!(
        change(&|plan| drop(plan.steps.remove(0))),
        "the plan cannot be used: the first step must be the report"
    );
    assert_eq!(
        change(&|plan| plan.skus[1].expect = "a = ".to_owned()).split(": ").take(3).collect::<Vec<_>>().join(": "),
        "the plan cannot be used: SKU 2: expect"
    );
    assert!(change(&|plan| plan.steps.extend(vec![Step::Boot; MAX_STEPS])).contains("256 steps"));
    assert!(
        Plan::from_json(b"{").unwrap_err().to_string().starts_with("the plan is not as `landfall certify` sends it: ")
    );
    assert!(Plan::from_json(&vec![b' '; MAX_BYTES + 1]).unwrap_err().to_string().contains("larger than"));
    let unknown = r#"{"name":"x","color":1,"policy":{"mismatch":"block"},"skus":[],"steps":[{"do":"report"}]}"#;
    assert!(Plan::from_json(unknown.as_bytes()).unwrap_err().to_string().contains("unknown field"), "{unknown}");
}
