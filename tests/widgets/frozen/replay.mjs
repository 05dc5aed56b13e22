// Answers messages, a line of JSON each on stdin, from a table of recorded states: what `Replay` says, and what it shares.
// The first line is the file of the table.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Replay } from "../../../meshlab/widgets/js/src/replay.ts";

let replay = null;
for await (const line of createInterface({ input: process.stdin })) {
  const said = JSON.parse(line);
  let reply = null;
  if (replay === null) replay = new Replay(readFileSync(said, "utf8"));
  else reply = replay.answer(said);
  process.stdout.write(`${JSON.stringify({ reply, traits: replay.traits })}\n`);
}
