/* Search of pages from the file system, where browsers start no workers: this one runs in a hidden frame.
   The theme asks for it by the name `IFrameWorker`. */
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.document.open()
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))
      this.inside.document.write(`<script src="${url}"></script>`)
      this.ready = new Promise(done => this.inside.addEventListener("load", done))
      this.inside.document.close()
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})))
    }
  }
}
