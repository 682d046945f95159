// Zooming and moving a picture by wheel, two fingers, drag and double click; swiping if it is not zoomed.

const MOST = 8;
const SWIPE = 60; // pixels
const TAP = 10;

export class Zoom {
  // `onSwipe(direction)`: 1 for the next image, -1 for the previous, 0 to close; `onTap()` of a finger; `onChange()` after every
  // change.
  constructor(stage, picture, { onSwipe, onTap, onChange }) {
    Object.assign(this, { stage, picture, onSwipe, onTap, onChange });
    this.fingers = new Map();
    this.reset();
    stage.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    picture.addEventListener("dblclick", (event) => this.to(this.scale > 1 ? 1 : 2.5, event.clientX, event.clientY));
    picture.addEventListener("pointerdown", (event) => this.onDown(event));
    picture.addEventListener("pointermove", (event) => this.onMove(event));
    for (const end of ["pointerup", "pointercancel"]) picture.addEventListener(end, (event) => this.onUp(event, end));
    picture.draggable = false;
  }

  reset() {
    [this.scale, this.x, this.y] = [1, 0, 0];
    this.apply();
  }

  apply() {
    const { scale, x, y } = this;
    this.picture.style.transform = scale === 1 ? "" : `translate(${x}px, ${y}px) scale(${scale})`;
    this.stage.classList.toggle("zoomed", scale > 1);
    this.onChange();
  }

  // Zooms so that the point under the pointer stays there.
  to(scale, clientX, clientY) {
    const next = Math.min(Math.max(scale, 1), MOST);
    const box = this.picture.getBoundingClientRect();
    const [fromX, fromY] = [clientX - (box.left + box.width / 2), clientY - (box.top + box.height / 2)];
    this.x += fromX * (1 - next / this.scale);
    this.y += fromY * (1 - next / this.scale);
    this.scale = next;
    if (next === 1) [this.x, this.y] = [0, 0];
    this.apply();
  }

  step(by) {
    const box = this.stage.getBoundingClientRect();
    this.to(this.scale * by, box.left + box.width / 2, box.top + box.height / 2);
  }

  onWheel(event) {
    event.preventDefault();
    this.to(this.scale * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
  }

  onDown(event) {
    if (event.button) return;
    this.picture.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.start = { x: event.clientX, y: event.clientY, apart: this.apart(), scale: this.scale };
  }

  onMove(event) {
    const finger = this.fingers.get(event.pointerId);
    if (!finger) return;
    const [dx, dy] = [event.clientX - finger.x, event.clientY - finger.y];
    Object.assign(finger, { x: event.clientX, y: event.clientY });
    if (this.fingers.size === 2) {
      const [a, b] = this.fingers.values();
      this.to((this.start.scale * this.apart()) / this.start.apart, (a.x + b.x) / 2, (a.y + b.y) / 2);
    } else {
      this.move(dx, dy);
    }
  }

  // Moves a zoomed picture, by pixels.
  move(dx, dy) {
    if (this.scale === 1) return;
    this.x += dx;
    this.y += dy;
    this.apply();
  }

  onUp(event, kind) {
    const alone = this.fingers.size === 1 && this.fingers.has(event.pointerId);
    this.fingers.delete(event.pointerId);
    if (!alone || kind === "pointercancel" || this.start.apart) return;
    const [dx, dy] = [event.clientX - this.start.x, event.clientY - this.start.y];
    if (event.pointerType === "touch" && Math.hypot(dx, dy) < TAP) this.onTap();
    if (this.scale > 1) return;
    if (Math.abs(dx) > SWIPE && Math.abs(dx) > Math.abs(dy)) this.onSwipe(dx < 0 ? 1 : -1);
    else if (dy > 2 * SWIPE && dy > Math.abs(dx)) this.onSwipe(0);
  }

  apart() {
    const [a, b] = this.fingers.values();
    return b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  }
}
