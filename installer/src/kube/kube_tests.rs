use super::*;

#[test]
fn what_goes_into_an_url_is_encoded() {
    assert_eq!(encode("node-role.kubernetes.io/master"), "node-role.kubernetes.io%2Fmaster");
    assert_eq!(encode("a=b&c ü"), "a%3Db%26c%20%C3%BC");
}
