package conf
import ("testing";"os";"fmt")
func TestProbe(t *testing.T){
 f:=os.Getenv("F"); c,d:=Load(os.DirFS("/"),f,Env{Dir:"/work/main/conf"})
 if d!=nil { fmt.Print(d.Text()) ; return}
 fmt.Printf("%+v\n",c)
 fmt.Print(Diagnostics(c.Warnings).Text())
}
