# The generic profile with trust, so that every part of a decision is exercised.
braid-profile 1
include generic.profile
name trusted
source test "for tests"
trust 1 @test
