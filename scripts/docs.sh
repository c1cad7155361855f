#!/usr/bin/env bash
# docs.sh: the pages and the API as a site, build/docs/site/index.html. Nothing is fetched, neither to build it nor to read it; what
# mkdocs warns of is an error.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
rm -rf build/docs
"$python" scripts/docs_pages.py build/docs/pages
quiet "build the site" env NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --config-file mkdocs.yml
if grep -rlE '<(script|link|img)[^>]+(src|href)="?(https?:)?//' --include='*.html' build/docs/site; then
  fail "these pages fetch from other sites"
fi
say "build/docs/site/index.html"
