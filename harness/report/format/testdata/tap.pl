# Reads TAP with Perl's own parser, and prints what it understood as JSON: the
# harness's TAP is read by a reader of other people's making.
use strict;
use warnings;
use TAP::Parser;
use JSON::PP;
my $text = do { local $/; <STDIN> };
my $parser = TAP::Parser->new({ tap => $text });
my (@tests, @skipped);
while (my $r = $parser->next) {
    next unless $r->is_test;
    push @tests, { ok => $r->is_ok ? JSON::PP::true : JSON::PP::false, name => $r->description };
    push @skipped, $r->number if $r->has_skip;
}
print encode_json({ planned => $parser->tests_planned + 0, tests => \@tests, skipped => \@skipped, errors => [$parser->parse_errors] });
