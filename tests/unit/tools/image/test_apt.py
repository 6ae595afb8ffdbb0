from tools.image.apt import closure

DEPENDS = """python3
  PreDepends: python3-minimal
  Depends: libssl
 |Depends: debconf
  Depends: <debconf-2.0>
    cdebconf
    debconf
libssl
  Depends: libc6
 |Depends: first-choice
  Depends: second-choice
  Depends: dpkg
python3-minimal
libc6
<debconf-2.0>
first-choice
second-choice
dpkg
  Depends: tar
tar
"""


def test_what_is_asked_for_comes_with_all_that_it_depends_on_and_the_first_of_alternatives() -> None:
    found = closure(DEPENDS, ["python3"], frozenset({"dpkg", "debconf"}))
    assert found == ["first-choice", "libc6", "libssl", "python3", "python3-minimal"]


def test_what_only_something_left_out_depends_on_is_left_out_too() -> None:
    assert "tar" in closure(DEPENDS, ["python3"], frozenset())
    assert "tar" not in closure(DEPENDS, ["python3"], frozenset({"dpkg"}))
