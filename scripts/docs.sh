#!/usr/bin/env bash
# docs.sh: builds the pages and the API reference as a site, build/docs/site/index.html. Building and reading it need no network.
# Warnings of mkdocs are errors.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
rm -rf build/docs
"$python" scripts/docs_pages.py build/docs/pages
quiet "build the site" env NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --config-file mkdocs.yml
if grep -rlE '<(script|link|img)[^>]+(src|href)="?(https?:)?//' --include='*.html' build/docs/site; then
  fail "these pages fetch from other sites"
fi
say "build/docs/site/index.html"
