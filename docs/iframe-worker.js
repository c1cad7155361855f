// Browsers start no web worker for a page opened as a file. Here Worker runs its script in a hidden frame, so that the site's search
// works from a folder. The pages' theme loads this file before its own scripts.
if (location.protocol === "file:") {
  window.Worker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.addEventListener("reply", (event) => this.dispatchEvent(new MessageEvent("message", { data: event.detail })));
      this.ready = new Promise((resolve) => frame.addEventListener("load", resolve));
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const page = this.inside.document;
      page.open();
      page.write(
        '<script>postMessage = (data) => frameElement.dispatchEvent(new CustomEvent("reply", { detail: data }));</script>' +
          `<script src="${new URL(url, location.href).href}"></script>`,
      );
      page.close();
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
