"""Verses on stdin, one a line with their place in front (`Ge1:1 In the beginning ...`), become one JSON
document a chapter: every 40th chapter in FOLDER/valid.jsonl, the others in FOLDER/train.jsonl."""

import itertools
import json
import pathlib
import sys

CHAPTERS = 1189


def main():
    folder = pathlib.Path(sys.argv[1])
    verses = (line.rstrip("\n").partition(" ") for line in sys.stdin)
    chapters = itertools.groupby(verses, key=lambda verse: verse[0].partition(":")[0])
    documents = ["\n".join(text for _, _, text in group) + "\n" for _, group in chapters]
    if len(documents) != CHAPTERS:
        sys.exit(f"{len(documents)} chapters were found on standard input; {CHAPTERS} are expected")

    folder.mkdir(parents=True)
    parts = {"train.jsonl": [d for i, d in enumerate(documents) if i % 40 != 20], "valid.jsonl": documents[20::40]}
    for name, part in parts.items():
        with open(folder / name, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": document}, ensure_ascii=False) + "\n" for document in part)


if __name__ == "__main__":
    main()
