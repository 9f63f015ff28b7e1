#!/bin/bash
# Every relative link in a Markdown file of the tree leads somewhere, and docs/README.md names every
# document beside it.
set -u
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT

find . -name '*.md' -not -path './build/*' -not -path './.git/*' | sort | while read -r file; do
    # [text](target#part), one a line; code blocks are left out.
    awk '/^ *```/ { code = !code } !code' "$file" | grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//; s/#.*//' |
        while read -r target; do
            case $target in
            '' | http://* | https://* | mailto:*) continue ;;
            esac
            [ -e "$(dirname "$file")/$target" ] || echo "$file: $target is not there"
        done
done >"$bad"

for document in docs/*.md; do
    name=$(basename "$document")
    [ "$name" = README.md ] || grep -q "($name)" docs/README.md ||
        echo "docs/README.md does not name $name" >>"$bad"
done

if [ -s "$bad" ]; then
    cat "$bad"
    exit 1
fi
