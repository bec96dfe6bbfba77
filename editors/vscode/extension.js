// Starts `finch lsp`, which says what is wrong, what words mean and where names come from.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("finch").get("command");
  const documents = { documentSelector: [{ language: "finch" }] };
  client = new LanguageClient("finch", "Finch", { command, args: ["lsp"] }, documents);
  return client.start();
};

exports.deactivate = () => client && client.stop();
